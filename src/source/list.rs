//! From URLs and patterns to the sorted list of objects.

use super::classify::Place;
use super::error::SourceError;
use super::http::Note;
use super::object::Object;
use super::open::{Store, Stores};
use super::pattern::KeyPattern;
use super::read::{Retrying, in_time};
use super::stats::SourceStats;
use super::url::{OriginId, Scheme, SourceUrl};
use futures_util::StreamExt;
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectMeta};

/// Look-ups in flight at once while zero-byte keys are checked.
const LOOK_UPS: usize = 16;

impl Stores {
    /// All objects that `urls` name, sorted bytewise by URL, each once. Keys that are directory markers are left out.
    ///
    /// # Errors
    /// [`SourceError::NoMatch`] for a pattern without objects, [`SourceError::NotFound`] for a single one,
    /// [`SourceError::Unsupported`] for a key below the prefix that cannot be addressed, and whatever the store reports.
    pub async fn list(&self, urls: &[SourceUrl]) -> Result<Vec<Object>, SourceError> {
        let mut objects = Vec::new();
        for url in urls {
            let origin = self.origin(url);
            let store = self.open(&origin)?;
            let found = list_one(&store, url, origin).await;
            objects.append(&mut found.inspect_err(|_| SourceStats::add(&store.stats.failed, 1))?);
        }
        objects.sort_unstable_by(|a, b| a.url.as_bytes().cmp(b.url.as_bytes()));
        objects.dedup_by(|a, b| a.url == b.url);
        Ok(objects)
    }
}

/// The objects of one URL, in no particular order.
pub(crate) async fn list_one(
    store: &Store,
    url: &SourceUrl,
    origin: OriginId,
) -> Result<Vec<Object>, SourceError> {
    let text = url.to_string();
    let place = Place::whole(&text);
    if let KeyPattern::One(key) = url.pattern() {
        let path = Path::parse(key)
            .map_err(|error| SourceError::Url { url: text.clone(), why: error.to_string() })?;
        if url.scheme() == Scheme::File {
            check_file(&text, key)?;
        }
        let meta = look_up(store, place, &path).await.map_err(|error| with_hint(error, url.scheme()))?;
        let shown = if url.scheme().is_web() { text.clone() } else { origin.url_of(key) };
        return Ok(vec![Object::new(shown, meta, origin)]);
    }
    let mut listing =
        Listing { store, place, pattern: url.pattern(), seen: 0, example: None, found: Vec::new() };
    match &store.pages {
        Some(pages) => listing.by_page(pages.as_ref()).await?,
        None => listing.by_directory().await?,
    }
    let Listing { seen, example, found, .. } = listing;
    let objects: Vec<_> = found
        .into_iter()
        .map(|meta| Object::new(origin.url_of(meta.location.as_ref()), meta, origin.clone()))
        .collect();
    let objects = without_markers(store, objects).await?;
    if objects.is_empty() {
        let prefix = origin.url_of(url.pattern().prefix());
        let example = example.map(|key| origin.url_of(&key));
        return Err(SourceError::NoMatch { pattern: text, prefix, seen, example });
    }
    Ok(objects)
}

/// Says what the store layer would not: a directory is no object, and names like `x#1` are reserved by it.
fn check_file(url: &str, key: &str) -> Result<(), SourceError> {
    let path = std::path::Path::new("/").join(key);
    let unsupported = |why: &str| Err(SourceError::Unsupported { url: url.to_owned(), why: why.to_owned() });
    if path.is_dir() {
        return unsupported("this is a directory; write a / at the end to read everything below it");
    }
    // A pipe or device would be opened to see its size, and that can wait for ever.
    if path.metadata().is_ok_and(|meta| !meta.is_file()) {
        return unsupported("this is no regular file");
    }
    let number = key.rsplit('/').next().and_then(|name| name.split_once('#')).map_or("", |(_, tail)| tail);
    if !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) {
        return unsupported("file names that end in # and digits cannot be read; rename the file");
    }
    Ok(())
}

fn with_hint(error: SourceError, scheme: Scheme) -> SourceError {
    match error {
        SourceError::NotFound { url, hint } if hint.is_empty() && !scheme.is_web() => SourceError::NotFound {
            url,
            hint: "a name without pattern means one object; write a / at the end to read everything below it"
                .to_owned(),
        },
        error => error,
    }
}

/// Size and ETag of one object.
async fn look_up(store: &Store, place: Place<'_>, path: &Path) -> Result<ObjectMeta, SourceError> {
    let mut retrying = Retrying::new(store);
    loop {
        let head = GetOptions::new().with_head(true);
        let error = match ask(store, place, path, head).await {
            Ok(meta) => return Ok(meta),
            // Refused HEADs say nothing about the reason, and a signed URL may be good for GET only: ask for a byte.
            Err(
                SourceError::Denied { .. }
                | SourceError::Other { .. }
                | SourceError::Unsupported { .. }
                | SourceError::Server { status: 200..=299, .. },
            ) => {
                let byte = GetOptions::new().with_range(Some(GetRange::Bounded(0..1)));
                match ask(store, place, path, byte).await {
                    Ok(meta) => return Ok(meta),
                    Err(error) => error,
                }
            }
            Err(error) => error,
        };
        retrying.pause(error).await?;
    }
}

async fn ask(
    store: &Store,
    place: Place<'_>,
    path: &Path,
    options: GetOptions,
) -> Result<ObjectMeta, SourceError> {
    let note = Note::default();
    let options = options.with_extensions(note.extensions());
    let reply = in_time(&store.policy, place, store.inner.get_opts(path, options)).await?;
    reply.map(|reply| reply.meta).map_err(|error| place.refused(error, &note))
}

struct Listing<'a> {
    store: &'a Store,
    place: Place<'a>,
    pattern: &'a KeyPattern,
    seen: u64,
    example: Option<String>,
    found: Vec<ObjectMeta>,
}

impl Listing<'_> {
    fn consider(&mut self, meta: ObjectMeta) {
        self.seen += 1;
        SourceStats::add(&self.store.stats.listed, 1);
        if self.example.is_none() {
            self.example = Some(meta.location.to_string());
        }
        if self.pattern.matches(meta.location.as_ref()) {
            self.found.push(meta);
        }
    }

    /// Page by page from the exact prefix; a page that fails is asked for again.
    async fn by_page(&mut self, pages: &dyn PaginatedListStore) -> Result<(), SourceError> {
        let prefix = Some(self.pattern.prefix()).filter(|prefix| !prefix.is_empty());
        let mut retrying = Retrying::new(self.store);
        let mut token = None;
        loop {
            let note = Note::of_listing();
            let options = PaginatedListOptions {
                page_token: token.clone(),
                extensions: note.extensions(),
                ..PaginatedListOptions::default()
            };
            let page = in_time(&self.store.policy, self.place, pages.list_paginated(prefix, options)).await;
            let page = page.and_then(|page| {
                page.map_err(|error| match note.status() {
                    // A listing whose body broke was answered well at first.
                    Some(200) if !matches!(error, object_store::Error::InvalidPath { .. }) => {
                        self.place.cut(Some(error))
                    }
                    _ => self.place.refused(error, &note),
                })
            });
            match page {
                Ok(page) => {
                    retrying.reset();
                    if note.lacks_token() {
                        return Err(self.unlistable("says that its listing goes on, but not where"));
                    }
                    if token.is_some() && token == page.page_token {
                        return Err(self.unlistable("answers with the same page again and again"));
                    }
                    page.result.objects.into_iter().for_each(|meta| self.consider(meta));
                    token = page.page_token;
                    if token.is_none() {
                        return Ok(());
                    }
                }
                Err(error) => retrying.pause(error).await?,
            }
        }
    }

    fn unlistable(&self, what: &str) -> SourceError {
        let why = format!(
            "the store {what}; it seems not to know list-type=2 with continuation tokens, so name the objects one by one"
        );
        SourceError::Unsupported { url: self.place.url.to_owned(), why }
    }

    /// Walks the last whole directory of the prefix: files and stores in memory.
    async fn by_directory(&mut self) -> Result<(), SourceError> {
        let directory = self.pattern.prefix().rsplit_once('/').map_or("", |(directory, _)| directory);
        let prefix = Path::parse(directory)
            .map_err(|error| SourceError::Url { url: self.place.url.to_owned(), why: error.to_string() })?;
        let mut stream = self.store.inner.list(Some(&prefix));
        while let Some(meta) = in_time(&self.store.policy, self.place, stream.next()).await? {
            let meta = meta.map_err(|error| self.place.refused(error, &Note::default()))?;
            self.consider(meta);
        }
        Ok(())
    }
}

/// Drops directory markers.
///
/// A marker is a zero-byte key that ends in `/`; the store layer takes the `/` away, after which it looks like an empty
/// object. The difference shows when it is asked for: no object has the shorter name.
async fn without_markers(store: &Store, objects: Vec<Object>) -> Result<Vec<Object>, SourceError> {
    let (empty, mut rest): (Vec<_>, Vec<_>) = objects.into_iter().partition(|object| object.size == 0);
    if store.pages.is_none() {
        rest.extend(empty);
        return Ok(rest);
    }
    let mut checks = futures_util::stream::iter(empty)
        .map(|object| async move {
            match look_up(store, Place::whole(&object.url), &object.path).await {
                Ok(meta) if meta.size == 0 => Ok(Some(object)),
                Ok(_) | Err(SourceError::NotFound { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        })
        .buffer_unordered(LOOK_UPS);
    while let Some(checked) = checks.next().await {
        rest.extend(checked?);
    }
    Ok(rest)
}

//! For tests: where the fields of a state are, by the layout that [`super::parse`] describes.

use super::{Cache, Format};

/// (offset, length) of everything but the values, in a state with so many cells in its caches.
pub(crate) fn fields(format: &Format, cells: [usize; 2]) -> Vec<(usize, usize)> {
    let mut fields = vec![(0, 4), (4, 4)];
    let mut at = 8;
    let caches = [Some(&format.whole), format.windowed.as_ref().map(|windowed| &windowed.cache)];
    for (cache, cells) in caches.into_iter().flatten().zip(cells) {
        at = fields_of_cache(&mut fields, at, cache, cells);
    }
    fields
}

fn fields_of_cache(fields: &mut Vec<(usize, usize)>, mut at: usize, cache: &Cache, cells: usize) -> usize {
    let figures = if cells == 0 { 2 } else { 2 + 3 * cells + 4 };
    fields.extend((0..figures).map(|n| (at + 4 * n, 4)));
    at += 4 * figures;
    for rows in cache.keys.iter().chain(&cache.values).filter(|_| cells > 0) {
        fields.extend([(at, 4), (at + 4, 8)]);
        at += 12 + cells * rows.bytes as usize;
    }
    at
}

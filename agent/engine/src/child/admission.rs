//! Who gets a slot next, and which standbys make room for it.

use super::sequence::Sequence;

/// The next admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    /// Place among those that wait.
    pub(crate) at: usize,
    /// Standbys, the youngest first, that lose their slots.
    pub(crate) pushed_out: usize,
}

/// Slots and cells of the KV cache that nobody has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Free {
    pub(crate) slots: usize,
    pub(crate) cells: u32,
}

/// First come, first served, so that one that needs many cells is not overtaken for ever by small ones. Workers and
/// successors before standbys: a request that runs comes before an option. None if the next one does not fit.
pub(crate) fn turn<'a>(
    waiting: impl Iterator<Item = &'a Sequence> + Clone,
    placed: &[Sequence],
    free: Free,
) -> Option<Turn> {
    let mut in_order = waiting.enumerate();
    if let Some((at, wanted)) = in_order.clone().find(|(_, sequence)| !sequence.role.is_option()) {
        let standbys = placed.iter().rev().filter(|sequence| sequence.role.is_option());
        let gains = standbys.map(|standby| standby.cells);
        return pushed_out(wanted.cells, free, gains).map(|pushed_out| Turn { at, pushed_out });
    }
    let (at, standby) = in_order.next()?;
    pushed_out(standby.cells, free, core::iter::empty()).map(|pushed_out| Turn { at, pushed_out })
}

/// How many of those that may be pushed out must go, given the cells that each gives back. None: all are not enough.
fn pushed_out(needs: u32, mut free: Free, mut gains: impl Iterator<Item = u32>) -> Option<usize> {
    let mut count = 0;
    while free.slots == 0 || free.cells < needs {
        free.cells += gains.next()?;
        free.slots += 1;
        count += 1;
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_standbys_go_than_must_and_none_in_vain() {
        let cases = [
            (10, Free { slots: 1, cells: 10 }, &[5, 5][..], Some(0)),
            (10, Free { slots: 0, cells: 10 }, &[5, 5], Some(1)),
            (10, Free { slots: 3, cells: 4 }, &[5, 5], Some(2)),
            (10, Free { slots: 3, cells: 4 }, &[2, 3], None),
            (10, Free { slots: 0, cells: 40 }, &[], None),
        ];
        for (needs, free, gains, expected) in cases {
            assert_eq!(pushed_out(needs, free, gains.iter().copied()), expected, "{needs} {free:?} {gains:?}");
        }
    }
}

//! Whether this processor has the instructions that this build uses.
//!
//! By raw `cpuid`: `is_x86_feature_detected!` answers at compile time for features that the build turns on, so it would
//! always say yes here and the process would die of an illegal instruction later.

/// The processor lacks an instruction set that this build needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this processor has no {0}, which this build of Idlewild needs (x86-64-v3: Intel since 2013, AMD since 2015)")]
pub struct MissingCpuFeature(pub &'static str);

/// Checks that this processor can run this build. Call it before anything else.
pub fn check_cpu() -> Result<(), MissingCpuFeature> {
    #[cfg(target_arch = "x86_64")]
    {
        x86::check(&x86::Registers::read())
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        Ok(())
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use core::arch::x86_64::{__cpuid, __cpuid_count};

    use super::MissingCpuFeature;

    /// The words of `cpuid` that name what x86-64-v3 adds.
    #[derive(Debug, Clone, Copy)]
    pub(super) struct Registers {
        /// Leaf 1, ecx.
        pub(super) basic: u32,
        /// Leaf 7, ebx.
        pub(super) extended: u32,
        /// Leaf 0x8000_0001, ecx.
        pub(super) amd: u32,
        /// XCR0: which registers the operating system saves.
        pub(super) saved: u64,
    }

    const OSXSAVE: u32 = 1 << 27;
    const BASIC: [(u32, &str); 5] =
        [(1 << 28, "AVX"), (1 << 12, "FMA"), (1 << 29, "F16C"), (1 << 22, "MOVBE"), (OSXSAVE, "XSAVE")];
    const EXTENDED: [(u32, &str); 3] = [(1 << 5, "AVX2"), (1 << 3, "BMI1"), (1 << 8, "BMI2")];
    const AMD: [(u32, &str); 1] = [(1 << 5, "LZCNT")];

    /// XMM and YMM registers.
    const SAVED: u64 = 0b110;

    impl Registers {
        pub(super) fn read() -> Self {
            let largest = __cpuid(0).eax;
            let basic = __cpuid(1).ecx;
            let extended = if largest >= 7 { __cpuid_count(7, 0).ebx } else { 0 };
            let amd = if __cpuid(0x8000_0000).eax > 0x8000_0000 { __cpuid(0x8000_0001).ecx } else { 0 };
            let saved = if basic & OSXSAVE == 0 { 0 } else { saved_registers() };
            Self { basic, extended, amd, saved }
        }
    }

    #[expect(unsafe_code, reason = "reading XCR0 has no safe form")]
    fn saved_registers() -> u64 {
        // SAFETY: `xgetbv` with index 0 is defined wherever cpuid reports OSXSAVE, which the caller has checked; it
        // reads one register and touches no memory.
        unsafe {
            let (low, high): (u32, u32);
            core::arch::asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high, options(nomem, nostack));
            u64::from(high) << 32 | u64::from(low)
        }
    }

    pub(super) fn check(registers: &Registers) -> Result<(), MissingCpuFeature> {
        let words = [(registers.basic, &BASIC[..]), (registers.extended, &EXTENDED[..]), (registers.amd, &AMD[..])];
        for (word, features) in words {
            for (bit, name) in features {
                if word & bit == 0 {
                    return Err(MissingCpuFeature(name));
                }
            }
        }
        if registers.saved & SAVED == SAVED { Ok(()) } else { Err(MissingCpuFeature("AVX (operating system)")) }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::x86::{Registers, check};
    use super::*;

    const ALL: Registers = Registers { basic: u32::MAX, extended: u32::MAX, amd: u32::MAX, saved: u64::MAX };

    #[test]
    fn the_machine_that_runs_this_test_passes() {
        assert_eq!(check_cpu(), Ok(()));
    }

    #[test]
    fn each_missing_instruction_set_is_named() {
        let cases = [
            (Registers { basic: !(1 << 12), ..ALL }, "FMA"),
            (Registers { extended: !(1 << 5), ..ALL }, "AVX2"),
            (Registers { amd: !(1 << 5), ..ALL }, "LZCNT"),
            (Registers { saved: 0b010, ..ALL }, "AVX (operating system)"),
        ];
        for (registers, name) in cases {
            assert_eq!(check(&registers), Err(MissingCpuFeature(name)));
        }
        assert_eq!(check(&ALL), Ok(()));
    }
}

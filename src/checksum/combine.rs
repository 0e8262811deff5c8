//! CRC of a concatenation: multiplication by powers of x modulo the CRC polynomial.

/// One reflected CRC-32 polynomial with the powers of x that any byte length needs.
pub(super) struct Polynomial {
    /// Reflected polynomial without its leading term.
    reflected: u32,
    /// Entry k is x^(2^k) mod P, reflected; 67 entries, as a 64-bit count of bytes has 67 bits.
    powers: [u32; 67],
}

/// zlib's CRC-32.
pub(super) static CRC32: Polynomial = Polynomial::new(0xEDB8_8320);
/// CRC-32C.
pub(super) static CRC32C: Polynomial = Polynomial::new(0x82F6_3B78);

/// The polynomial 1 in reflected form.
const ONE: u32 = 1 << 31;

impl Polynomial {
    const fn new(reflected: u32) -> Polynomial {
        let mut powers = [ONE >> 1; 67];
        let mut k = 1;
        while k < powers.len() {
            powers[k] = multiply(reflected, powers[k - 1], powers[k - 1]);
            k += 1;
        }
        Polynomial { reflected, powers }
    }

    /// CRC of A followed by B; `len_b` in bytes.
    pub(super) fn combine(&self, crc_a: u32, crc_b: u32, len_b: u64) -> u32 {
        // A's CRC moves up by 8 bits for each byte of B; initial and final inversions cancel out.
        let mut shift = ONE;
        let mut rest = len_b;
        // 8 = 2^3 bits a byte.
        for &power in &self.powers[3..] {
            if rest == 0 {
                break;
            }
            if rest & 1 == 1 {
                shift = multiply(self.reflected, shift, power);
            }
            rest >>= 1;
        }
        multiply(self.reflected, shift, crc_a) ^ crc_b
    }
}

/// Product of two reflected polynomials modulo P.
const fn multiply(reflected: u32, a: u32, mut b: u32) -> u32 {
    let mut product = 0;
    let mut bit = ONE;
    while bit != 0 {
        if a & bit != 0 {
            product ^= b;
        }
        b = if b & 1 == 1 { (b >> 1) ^ reflected } else { b >> 1 };
        bit >>= 1;
    }
    product
}

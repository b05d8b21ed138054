//! The Concat KDF as ECDH-ES uses it (RFC 7518 section 4.6.2, NIST SP 800-56A section 5.8.1), with SHA-256.

use sha2::{Digest, Sha256};

/// The key that two parties come to by the Concat KDF (RFC 7518 section 4.6.2): `out.len()` bytes, at most 32 as that is one
/// round, for the algorithm of this name. `apu` and `apv` are what the header says of the parties, decoded; mostly nothing.
pub fn concat_kdf(shared: &[u8], algorithm: &str, apu: &[u8], apv: &[u8], out: &mut [u8]) {
    let mut hash = Sha256::new();
    hash.update(1_u32.to_be_bytes());
    hash.update(shared);
    for part in [algorithm.as_bytes(), apu, apv] {
        hash.update(u32::try_from(part.len()).unwrap_or(u32::MAX).to_be_bytes());
        hash.update(part);
    }
    hash.update(u32::try_from(out.len() * 8).unwrap_or(u32::MAX).to_be_bytes());
    for (to, from) in out.iter_mut().zip(hash.finalize()) {
        *to = from;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7518 appendix C: Z, and the key for A128GCM between Alice and Bob.
    #[test]
    fn is_the_published_derivation() {
        let shared = [
            158, 86, 217, 29, 129, 113, 53, 211, 114, 131, 66, 131, 191, 132, 38, 156, 251, 49, 110, 163, 218, 128,
            106, 72, 246, 218, 167, 121, 140, 254, 144, 196,
        ];
        let mut key = [0; 16];
        concat_kdf(&shared, "A128GCM", b"Alice", b"Bob", &mut key);
        assert_eq!(key, [86, 170, 141, 234, 248, 35, 109, 32, 92, 34, 40, 205, 113, 167, 16, 26]);
    }
}

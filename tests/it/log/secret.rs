//! The file `secret`: the key of the ID digests in tombstones.

use parallax::testing::checksum::hmac_sha256;
use parallax::testing::log::format::{secret_from_bytes, secret_to_bytes};

use super::hex;

#[test]
fn id_digests_use_hmac_sha_256_and_the_secret_file_is_stable() {
    // RFC 4231, test case 1. HMAC pads a short key with zeros, so the zeros after it change nothing.
    let mut key = [0; 32];
    key[..20].fill(0x0b);
    let expected = "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7\n";
    assert_eq!(hex(&hmac_sha256(&key, &[b"Hi ", b"There"])), expected);
    let key = std::array::from_fn(|at| at as u8);
    let bytes = secret_to_bytes(&key);
    let golden = "ff504c5853454352000102030405060708090a0b0c0d0e0f1011121314151617\n\
                  18191a1b1c1d1e1f00000000";
    assert_eq!(&hex(&bytes)[..golden.len()], golden);
    assert_eq!(secret_from_bytes(&bytes), Some(key));
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes;
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(secret_from_bytes(&damaged), None, "bit {bit}");
    }
    assert_eq!(secret_from_bytes(&bytes[..47]), None);
}

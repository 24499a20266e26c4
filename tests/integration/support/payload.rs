//! Payloads of DUMP and RDB files, made by hand.

use super::stored::STORED;
use crate::client::{Client, Reply};

/// The bytes that the server adds to the end of a DUMP payload: the RDB version, and a checksum.
pub const FOOTER: usize = 10;

/// A DUMP payload without the bytes that the server adds.
pub fn body(payload: &Reply) -> &[u8] {
    let payload = payload.bytes();
    &payload[..payload.len() - FOOTER]
}

/// The version of the RDB format that the server writes, and the newest one that it reads.
pub fn rdb_version(client: &mut Client) -> u16 {
    client.run("SET version 1");
    let payload = client.dump("version");
    client.run("DEL version");
    let footer = payload.bytes().last_chunk::<FOOTER>().unwrap();
    u16::from_le_bytes([footer[0], footer[1]])
}

/// An RDB file that every server reads, with these keys and bodies of DUMP payloads.
pub fn rdb_file<'a>(filters: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Vec<u8> {
    let mut file = b"REDIS0009\xfe\x00".to_vec();
    for (key, body) in filters {
        let (kind, value) = body.split_first().unwrap();
        file.push(*kind);
        put_length(&mut file, key.len() as u64);
        file.extend_from_slice(key.as_bytes());
        file.extend_from_slice(value);
    }
    // The checksum 0 means that there is none.
    file.extend_from_slice(b"\xff\0\0\0\0\0\0\0\0");
    file
}

/// A length as an RDB file has it.
pub fn put_length(file: &mut Vec<u8>, length: u64) {
    if length < 64 {
        file.push(length as u8);
    } else {
        file.push(0x81);
        file.extend_from_slice(&length.to_be_bytes());
    }
}

/// A filter's body, written by hand.
pub struct Body(Vec<u8>);

impl Body {
    /// A body of RedisBloom's type, in an encoding version.
    pub fn of_version(version: u64) -> Self {
        let id = u64::from_be_bytes(*STORED[0].body[2..].first_chunk().unwrap());
        Self([&[7, 0x81], &(id & !0x3ff | version).to_be_bytes()[..]].concat())
    }

    pub fn unsigned(mut self, values: &[u64]) -> Self {
        for value in values {
            self.0.push(2);
            put_length(&mut self.0, *value);
        }
        self
    }

    pub fn double(mut self, value: f64) -> Self {
        self.0.push(4);
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub fn string(mut self, bytes: &[u8]) -> Self {
        self.0.push(5);
        put_length(&mut self.0, bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    pub fn end(mut self) -> Vec<u8> {
        self.0.push(0);
        self.0
    }
}

/// The error of RESTORE for data that is no filter.
pub const BAD_FORMAT: &str = "ERR Bad data format";

/// A DUMP payload with a right checksum.
pub fn sealed(body: &[u8], version: &[u8]) -> Vec<u8> {
    let mut payload = [body, version].concat();
    payload.extend(crc64(&payload).to_le_bytes());
    payload
}

/// The checksum of DUMP payloads: CRC-64 with Jones' polynomial, reflected.
fn crc64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ u64::from(*byte), |crc, _| {
            (crc >> 1) ^ if crc & 1 == 1 { 0x95ac_9329_ac4b_c9b5 } else { 0 }
        })
    })
}

/// The tests of forged payloads would only test the server's checksum.
#[test]
fn the_checksum_is_the_servers() {
    assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
}

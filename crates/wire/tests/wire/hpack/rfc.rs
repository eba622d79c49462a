//! The examples of RFC 7541 Appendix C, in both directions.

use trilane_wire::hpack::{Decoder, Encoder, Error};
use trilane_wire::request::Indexing;

type Fields = Vec<(String, String)>;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u32> = hex.chars().filter_map(|c| c.to_digit(16)).collect();
    digits
        .chunks(2)
        .map(|pair| (pair[0] * 16 + pair[1]) as u8)
        .collect()
}

fn fields(text: &str) -> Fields {
    let pairs = text.lines().map(str::trim).filter(|line| !line.is_empty());
    pairs
        .map(|line| line.split_once(": ").unwrap())
        .map(|(n, v)| (n.into(), v.into()))
        .collect()
}

fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<Fields, Error> {
    let mut seen = Fields::new();
    decoder.decode(block, |name, value, _| {
        seen.push((
            String::from_utf8(name.into()).unwrap(),
            String::from_utf8(value.into()).unwrap(),
        ));
    })?;
    Ok(seen)
}

fn encode(encoder: &mut Encoder, fields: &Fields, indexing: Indexing) -> Vec<u8> {
    let mut out = Vec::new();
    let each = fields
        .iter()
        .map(|(n, v)| (n.as_bytes(), v.as_bytes(), indexing));
    encoder.encode(each, &mut out);
    out
}

const REQUESTS: [&str; 3] = [
    ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com",
    ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\ncache-control: no-cache",
    ":method: GET\n:scheme: https\n:path: /index.html\n:authority: www.example.com\ncustom-key: custom-value",
];

const RESPONSES: [&str; 3] = [
    ":status: 302\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:21 GMT\nlocation: https://www.example.com",
    ":status: 307\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:21 GMT\nlocation: https://www.example.com",
    ":status: 200\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:22 GMT\nlocation: https://www.example.com\ncontent-encoding: gzip\nset-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
];

/// C.4: requests with Huffman coding.
const REQUEST_BLOCKS: [&str; 3] = [
    "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
    "8286 84be 5886 a8eb 1064 9cbf",
    "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
];

#[test]
fn literal_representations_c_2() {
    for (block, text) in [
        (
            "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572",
            "custom-key: custom-header",
        ),
        ("040c 2f73 616d 706c 652f 7061 7468", ":path: /sample/path"),
        (
            "1008 7061 7373 776f 7264 0673 6563 7265 74",
            "password: secret",
        ),
        ("82", ":method: GET"),
    ] {
        assert_eq!(
            decode(&mut Decoder::new(4096), &bytes(block)),
            Ok(fields(text))
        );
    }
}

#[test]
fn requests_without_huffman_coding_c_3() {
    let blocks = [
        "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "8286 84be 5808 6e6f 2d63 6163 6865",
        "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
    ];
    let mut decoder = Decoder::new(4096);
    for (block, text) in blocks.iter().zip(REQUESTS) {
        assert_eq!(decode(&mut decoder, &bytes(block)), Ok(fields(text)));
    }
}

#[test]
fn requests_with_huffman_coding_c_4() {
    let mut decoder = Decoder::new(4096);
    let mut encoder = Encoder::new();
    for (block, text) in REQUEST_BLOCKS.iter().zip(REQUESTS) {
        assert_eq!(decode(&mut decoder, &bytes(block)), Ok(fields(text)));
        assert_eq!(
            encode(&mut encoder, &fields(text), Indexing::Incremental),
            bytes(block)
        );
    }
}

#[test]
fn responses_without_huffman_coding_evict_c_5() {
    let blocks = [
        "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a \
         3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "4803 3330 37c1 c0bf",
        "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 \
         677a 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 \
         553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31",
    ];
    responses(blocks);
}

#[test]
fn responses_with_huffman_coding_evict_c_6() {
    let blocks = [
        "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e \
         919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
        "4883 640e ffc1 c0bf",
        "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 \
         821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed \
         4ee5 b106 3d50 07",
    ];
    responses(blocks);
}

fn responses(blocks: [&str; 3]) {
    let mut decoder = Decoder::new(4096);
    // The examples assume that a table of 256 bytes has been agreed.
    decode(&mut decoder, &[0x3f, 0xe1, 0x01]).unwrap();
    for (block, text) in blocks.iter().zip(RESPONSES) {
        assert_eq!(decode(&mut decoder, &bytes(block)), Ok(fields(text)));
    }
}

#[test]
fn secrets_are_never_indexed() {
    let secret = fields("cookie: a=b");
    let mut encoder = Encoder::new();
    for _ in 0..2 {
        // 0x1f 0x11: never indexed, name 32.
        assert_eq!(
            encode(&mut encoder, &secret, Indexing::Never)[..2],
            [0x1f, 0x11]
        );
    }
    let mut decoder = Decoder::new(4096);
    assert_eq!(
        decode(
            &mut decoder,
            &encode(&mut encoder, &secret, Indexing::Never)
        ),
        Ok(secret)
    );
    assert_eq!(decode(&mut decoder, &[0xbe]), Err(Error::Index));
}

#[test]
fn a_smaller_table_is_announced_by_its_smallest_and_its_last_size() {
    let pair = fields("a: b");
    let mut encoder = Encoder::new();
    let mut decoder = Decoder::new(4096);
    let first = encode(&mut encoder, &pair, Indexing::Incremental);
    assert_eq!(decode(&mut decoder, &first), Ok(pair.clone()));
    encoder.set_limit(0);
    encoder.set_limit(100);
    encoder.set_limit(64);
    let block = encode(&mut encoder, &pair, Indexing::Incremental);
    // Updates to 0 and to 64, then a literal: the table has been emptied.
    assert_eq!(block[..4], [0x20, 0x3f, 0x21, 0x40]);
    assert_eq!(decode(&mut decoder, &block), Ok(pair.clone()));
    assert_eq!(encode(&mut encoder, &pair, Indexing::Incremental), [0xbe]);
    encoder.set_limit(1 << 20);
    assert_eq!(
        encode(&mut encoder, &pair, Indexing::Incremental),
        [0x3f, 0xe1, 0x1f, 0xbe]
    );
}

#[test]
fn table_size_updates_have_their_place_and_their_limit() {
    let update_to_64 = [0x3f, 0x21];
    let mut decoder = Decoder::new(4096);
    assert_eq!(
        decode(&mut decoder, &[0x20, 0x3f, 0x21, 0x82])
            .unwrap()
            .len(),
        1
    );
    assert_eq!(
        decode(&mut decoder, &[0x82, 0x3f, 0x21]),
        Err(Error::TableSize)
    );
    assert_eq!(
        decode(&mut Decoder::new(4096), &[0x3f, 0xe2, 0x1f]),
        Err(Error::TableSize)
    );
    assert_eq!(
        decode(&mut Decoder::new(8192), &[0x3f, 0xe1, 0x3f]),
        Ok(vec![])
    );

    let mut decoder = Decoder::new(64);
    assert_eq!(decode(&mut decoder, &[0x82]).unwrap().len(), 1);
    decoder.set_limit(64);
    let mut lagging = Decoder::new(64);
    lagging.set_limit(64);
    assert_eq!(decode(&mut lagging, &[0x82]), Err(Error::MissingUpdate));
    assert_eq!(decode(&mut decoder, &update_to_64), Ok(vec![]));
    assert_eq!(decode(&mut decoder, &[0x82]).unwrap().len(), 1);
}

#[test]
fn broken_blocks_are_refused() {
    for (block, error) in [
        (&[0x80][..], Error::Index),
        (&[0xbe], Error::Index),
        (&[0x7e, 0x00], Error::Index),
        (&[0xff, 0x80], Error::Integer),
        (&[0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], Error::Integer),
        (&[0x40], Error::String),
        (&[0x40, 0x05, b'a'], Error::String),
        (&[0x40, 0x01, b'a'], Error::String),
        (&[0x40, 0x01, b'a', 0x81, 0xff], Error::Huffman),
        (
            &[0x40, 0x01, b'a', 0x84, 0xff, 0xff, 0xff, 0xff],
            Error::Huffman,
        ),
        (&[0x40, 0x01, b'a', 0x81, 0x06], Error::Huffman),
    ] {
        assert_eq!(
            decode(&mut Decoder::new(4096), block),
            Err(error),
            "{block:x?}"
        );
    }
}

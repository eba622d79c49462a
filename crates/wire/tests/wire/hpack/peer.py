"""Encodes and decodes with Python's hpack what the test asks for, one JSON object a line."""

import json
import sys

from hpack import Decoder, Encoder

encoder, decoder = Encoder(), Decoder()
for line in sys.stdin:
    question = json.loads(line)
    answer = {}
    if "new" in question:
        encoder, decoder = Encoder(), Decoder(max_header_list_size=1 << 24)
    elif "encoder_size" in question:
        encoder.header_table_size = question["encoder_size"]
    elif "decoder_size" in question:
        decoder.max_allowed_table_size = question["decoder_size"]
    elif "encode" in question:
        fields = [
            (bytes.fromhex(name), bytes.fromhex(value), sensitive)
            for name, value, sensitive in question["encode"]
        ]
        answer["block"] = encoder.encode(fields, huffman=question["huffman"]).hex()
    else:
        fields = decoder.decode(bytes.fromhex(question["decode"]), raw=True)
        answer["fields"] = [[name.hex(), value.hex()] for name, value in fields]
    print(json.dumps(answer), flush=True)

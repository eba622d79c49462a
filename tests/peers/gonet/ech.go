package main

import (
	"crypto/ecdh"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net/http"
	"os"
	"strconv"
)

// offerECH makes the server open hellos that are encrypted for a new key, whose ECHConfigList (RFC
// 9849, section 4) it writes to a file; retry says whether those who used another key get it.
func offerECH(config *tls.Config, publicName, file string, retry bool) error {
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	contents := []byte{7}                                      // config_id
	contents = binary.BigEndian.AppendUint16(contents, 0x0020) // DHKEM(X25519, HKDF-SHA256)
	contents = prefixed(contents, key.PublicKey().Bytes())     // public_key
	contents = prefixed(contents, []byte{0, 1, 0, 1})          // HKDF-SHA256, AES-128-GCM
	contents = append(contents, 32, byte(len(publicName)))     // maximum_name_length
	contents = append(contents, publicName...)                 // public_name
	contents = binary.BigEndian.AppendUint16(contents, 0)      // extensions
	one := prefixed([]byte{0xfe, 0x0d}, contents)
	config.EncryptedClientHelloKeys = []tls.EncryptedClientHelloKey{
		{Config: one, PrivateKey: key.Bytes(), SendAsRetry: retry},
	}
	return os.WriteFile(file, prefixed(nil, one), 0o600)
}

// prefixed appends bytes behind their number as two bytes.
func prefixed(to, bytes []byte) []byte {
	return append(binary.BigEndian.AppendUint16(to, uint16(len(bytes))), bytes...)
}

// hello says whether the hello was encrypted, and for whom it was.
func hello(w http.ResponseWriter, r *http.Request) {
	io.WriteString(w, strconv.FormatBool(r.TLS.ECHAccepted)+" "+r.TLS.ServerName)
}

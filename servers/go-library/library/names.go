package library

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Digits of a number in a name; it fits an int everywhere.
const maxDigits = 9

// Reads `shelves/{shelf}/books/{book}`.
func bookOf(field, name string) (shelf, book int, err error) {
	if rest, ok := strings.CutPrefix(name, "shelves/"); ok {
		if first, second, ok := strings.Cut(rest, "/books/"); ok {
			shelf, book = number(first), number(second)
		}
	}
	if shelf == 0 || book == 0 {
		return 0, 0, status.Errorf(codes.InvalidArgument,
			"%s: %.100q is no name of a book; it looks like shelves/1/books/1", field, name)
	}
	return shelf, book, nil
}

// Reads `shelves/{shelf}`.
func shelfOf(field, name string) (int, error) {
	if rest, ok := strings.CutPrefix(name, "shelves/"); ok {
		if shelf := number(rest); shelf != 0 {
			return shelf, nil
		}
	}
	return 0, status.Errorf(codes.InvalidArgument,
		"%s: %.100q is no name of a shelf; it looks like shelves/1", field, name)
}

// A number above 0 as it is written in names: without sign and leading zeros. 0 where it is none.
func number(text string) int {
	if len(text) > maxDigits || text == "" || text[0] == '0' {
		return 0
	}
	for _, digit := range []byte(text) {
		if digit < '0' || digit > '9' {
			return 0
		}
	}
	value, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return value
}

func name(shelf, book int) string {
	return "shelves/" + strconv.Itoa(shelf) + "/books/" + strconv.Itoa(book)
}

// A page token names the last book of the page before.
func token(shelf, book int) string {
	return base64.RawURLEncoding.EncodeToString([]byte(name(shelf, book)))
}

// The number of the book that a token of this shelf names; 0 for none.
func afterToken(token string, shelf int) (int, error) {
	if token == "" {
		return 0, nil
	}
	if text, err := base64.RawURLEncoding.DecodeString(token); err == nil {
		if of, book, err := bookOf("page_token", string(text)); err == nil && of == shelf {
			return book, nil
		}
	}
	return 0, status.Errorf(codes.InvalidArgument,
		"page_token: %.100q is not the next_page_token of an answer for this shelf", token)
}

func missing(what string) error {
	return status.Error(codes.NotFound, fmt.Sprintf("there is no %s", what))
}

package library

import (
	"encoding/base64"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Reads `shelves/{shelf}/books/{book}`.
func bookOf(field, name string) (shelf, book int, err error) {
	if rest, ok := strings.CutPrefix(name, "shelves/"); ok {
		if first, second, ok := strings.Cut(rest, "/books/"); ok {
			shelf, right := number(first)
			book, alsoRight := number(second)
			if right && alsoRight {
				return shelf, book, nil
			}
		}
	}
	return 0, 0, status.Errorf(codes.InvalidArgument,
		"%s: %.100q is no name of a book; it looks like shelves/1/books/1", field, name)
}

// Reads `shelves/{shelf}`.
func shelfOf(field, name string) (int, error) {
	if rest, ok := strings.CutPrefix(name, "shelves/"); ok {
		if shelf, right := number(rest); right {
			return shelf, nil
		}
	}
	return 0, status.Errorf(codes.InvalidArgument,
		"%s: %.100q is no name of a shelf; it looks like shelves/1", field, name)
}

// A number as it is written in names, so that a thing has one: without sign and leading zeros.
func number(text string) (int, bool) {
	value, err := strconv.ParseUint(text, 10, 32)
	return int(value), err == nil && strconv.FormatUint(value, 10) == text
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
	return status.Error(codes.NotFound, "there is no "+what)
}

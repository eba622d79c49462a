module trilane.test/gonet

go 1.24

// Kestrel over HTTP/1.1, HTTP/2 and HTTP/3 on one port, as in the post of 2023, without its page:
// it answers what the embedded server answers.

using System.Globalization;
using System.Net;
using System.Runtime.InteropServices;
using System.Security.Cryptography.X509Certificates;
using System.Text;
using System.Text.Json;
using System.Text.RegularExpressions;
using Microsoft.AspNetCore.Server.Kestrel.Core;

const string Text = "text/plain;charset=utf-8";
const string Json = "application/json";
const string Html = "text/html; charset=utf-8";
const string Octets = "application/octet-stream";
const int Largest = 64 << 20;

if (args is ["--software"])
{
    Console.WriteLine($"Kestrel, {RuntimeInformation.FrameworkDescription}");
    return 0;
}

var builder = WebApplication.CreateBuilder(args);
string Option(string name) =>
    builder.Configuration[name] ?? throw new ArgumentException($"--{name} is missing");
var port = int.Parse(Option("port"), CultureInfo.InvariantCulture);
var plain = int.Parse(Option("plain"), CultureInfo.InvariantCulture);
using var certificate = X509Certificate2.CreateFromPemFile(Option("cert"), Option("key"));
var www = Option("www");

builder.Logging.SetMinimumLevel(LogLevel.Warning);
builder.WebHost.ConfigureKestrel(options =>
{
    options.Limits.MaxRequestBodySize = Largest;
    options.Limits.Http2.MaxStreamsPerConnection = 1000;
    options.Listen(IPAddress.Loopback, port, listen =>
    {
        listen.Protocols = HttpProtocols.Http1AndHttp2AndHttp3;
        listen.UseHttps(certificate);
    });
    // Without TLS there is no ALPN, so a port is for one version.
    options.Listen(IPAddress.Loopback, plain, listen => listen.Protocols = HttpProtocols.Http2);
});

var index = File.ReadAllBytes(Path.Combine(www, "books"));
var pattern = File.ReadAllBytes(Path.Combine(www, "bytes", "1048576"));
var pages = Directory.EnumerateFiles(Path.Combine(www, "site"))
    .ToDictionary(path => Path.GetFileName(path), File.ReadAllBytes);
var books = new Dictionary<string, byte[]>();
using (var stock = JsonDocument.Parse(File.ReadAllBytes(Option("books"))))
{
    foreach (var book in stock.RootElement.EnumerateObject())
    {
        // Raw: decoding and encoding again could write other bytes.
        books[book.Name] = Encoding.UTF8.GetBytes(book.Value.GetRawText());
    }
}

var app = builder.Build();
var hello = Encoding.ASCII.GetBytes("hello world");

app.Map("/", () => Results.Bytes(hello, Text));
app.Map("/hello", () => Results.Bytes(hello, Text));
app.Map("/bytes/{n}", (string n) =>
{
    var size = SizeOf(n);
    return size is null
        ? Results.BadRequest("a number of bytes up to 64m, such as 16k")
        : Results.Bytes(BytesOf(size.Value), Octets);
});
app.Map("/delay/{time}", async (string time, CancellationToken gone) =>
{
    var pause = TimeOf(time);
    if (pause is null)
    {
        return Results.BadRequest("a time up to 10m, such as 50ms");
    }
    await Task.Delay(pause.Value, gone);
    return Results.Bytes(Encoding.UTF8.GetBytes($"waited {time}\n"), Text);
});
app.Map("/echo", async (HttpRequest request, CancellationToken gone) =>
{
    using var body = new MemoryStream();
    await request.Body.CopyToAsync(body, gone);
    return Results.Bytes(body.ToArray(), request.ContentType ?? Octets);
});
app.Map("/headers", (HttpRequest request) => Results.Bytes(Arrived(request), Json));
app.Map("/books", () => Results.Bytes(index, Json));
app.Map("/book", (string? id) => Found(books, id, Json));
app.Map("/site", () => Found(pages, "index.html", Html));
app.Map("/site/{page}", (string page) => Found(pages, page, Html));

app.Run();
return 0;

static IResult Found(Dictionary<string, byte[]> among, string? name, string kind) =>
    name is not null && among.TryGetValue(name, out var body)
        ? Results.Bytes(body, kind)
        : Results.NotFound();

// The first bytes of a pattern that repeats after 1 MiB.
ReadOnlyMemory<byte> BytesOf(int size)
{
    if (size <= pattern.Length)
    {
        return pattern.AsMemory(0, size);
    }
    var body = new byte[size];
    for (var at = 0; at < size; at += pattern.Length)
    {
        pattern.AsSpan(0, Math.Min(pattern.Length, size - at)).CopyTo(body.AsSpan(at));
    }
    return body;
}

static int? SizeOf(string text)
{
    var found = Regex.Match(text, "^([0-9]{1,9})([km]?)$");
    if (!found.Success)
    {
        return null;
    }
    var unit = found.Groups[2].Value switch { "k" => 1L << 10, "m" => 1L << 20, _ => 1L };
    var size = long.Parse(found.Groups[1].Value, CultureInfo.InvariantCulture) * unit;
    return size <= Largest ? (int)size : null;
}

static TimeSpan? TimeOf(string text)
{
    var found = Regex.Match(text, @"^([0-9]{1,6}(?:\.[0-9]{1,6})?)(us|ms|s|m)$");
    if (!found.Success)
    {
        return null;
    }
    var number = double.Parse(found.Groups[1].Value, CultureInfo.InvariantCulture);
    var seconds = number * found.Groups[2].Value switch
    {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => 60.0,
    };
    return seconds <= 600 ? TimeSpan.FromSeconds(seconds) : null;
}

static byte[] Arrived(HttpRequest request)
{
    var version = request.Protocol switch
    {
        "HTTP/2" => request.IsHttps ? "h2" : "h2c",
        "HTTP/3" => "h3",
        "HTTP/1.0" => "h1.0",
        _ => "h1",
    };
    var fields = request.Headers
        .SelectMany(field => field.Value.Select(value => new[] { field.Key, value ?? "" }));
    return JsonSerializer.SerializeToUtf8Bytes(new
    {
        method = request.Method,
        path = request.Path + request.QueryString.ToString(),
        authority = request.Host.ToString(),
        version,
        fields,
    });
}

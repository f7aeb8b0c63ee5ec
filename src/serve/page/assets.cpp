#include "serve/page/assets.h"

#include <zlib.h>

#include "base/error.h"
#include "base/sha256.h"

// MAKAR_PAGE_DIR: build folder with index.html.gz, app.js.gz, app.css.gz and pdf.js.gz.
#define MAKAR_PAGE_FILE(symbol, name)                                                            \
  __asm__(".section .rodata\n.global " #symbol "\n.global " #symbol "_end\n" #symbol             \
          ":\n.incbin \"" MAKAR_PAGE_DIR "/" name "\"\n" #symbol "_end:\n.byte 0\n.previous\n"); \
  extern "C" const char(symbol)[], symbol##_end[];

MAKAR_PAGE_FILE(makar_page_html, "index.html.gz")
MAKAR_PAGE_FILE(makar_page_js, "app.js.gz")
MAKAR_PAGE_FILE(makar_page_css, "app.css.gz")
MAKAR_PAGE_FILE(makar_page_pdf, "pdf.js.gz")
#undef MAKAR_PAGE_FILE

namespace makar {
namespace {

struct PageFile {
  std::string_view path, type, compressed;
  std::string etag;
};

std::string decompress(std::string_view compressed) {
  constexpr int kGzipWindowBits = 15 + 16;  // the largest window, with a gzip header
  z_stream z{};
  check(inflateInit2(&z, kGzipWindowBits) == Z_OK, "zlib starts");
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(compressed.data()));
  z.avail_in = static_cast<uInt>(compressed.size());
  std::string out, block(size_t{1} << 16, '\0');
  int code = Z_OK;
  while (code == Z_OK) {
    z.next_out = reinterpret_cast<Bytef*>(block.data());
    z.avail_out = static_cast<uInt>(block.size());
    code = inflate(&z, Z_NO_FLUSH);
    out.append(block.data(), block.size() - z.avail_out);
  }
  inflateEnd(&z);
  check(code == Z_STREAM_END, "the embedded page is intact");
  return out;
}

PageFile file_of(std::string_view path, std::string_view type, const char* begin, const char* end) {
  const std::string_view compressed(begin, static_cast<size_t>(end - begin));
  return {path, type, compressed, "\"" + sha256_of(std::string(compressed)).substr(0, 32) + "\""};
}

const PageFile& find_file(std::string_view path) {
  static const PageFile files[] = {
      file_of("/", "text/html; charset=utf-8", makar_page_html, makar_page_html_end),
      file_of("/app.js", "text/javascript; charset=utf-8", makar_page_js, makar_page_js_end),
      file_of("/app.css", "text/css; charset=utf-8", makar_page_css, makar_page_css_end),
      file_of("/pdf.js", "text/javascript; charset=utf-8", makar_page_pdf, makar_page_pdf_end)};
  for (const PageFile& file : files)
    if (file.path == path) return file;
  check(false, "every route of a page file names an existing file");
  return files[0];
}

}  // namespace

HttpResponse page_file(const HttpRequest& request) {
  const PageFile& file = find_file(request.path);
  HttpResponse out;
  out.type = file.type;
  // Same-origin resources only: no inline scripts, no external resources, no framing.
  out.headers = {{"content-security-policy",
                  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
                  "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
                 {"x-content-type-options", "nosniff"},
                 {"referrer-policy", "no-referrer"},
                 {"cache-control", "no-cache"},
                 {"vary", "accept-encoding"},
                 {"etag", file.etag}};
  if (request.header("if-none-match") == file.etag) {
    out.status = 304;
  } else if (request.header("accept-encoding").find("gzip") != std::string::npos) {
    out.headers.emplace_back("content-encoding", "gzip");
    out.body = file.compressed;
  } else {
    out.body = decompress(file.compressed);
  }
  return out;
}

}  // namespace makar

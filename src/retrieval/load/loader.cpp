#include "retrieval/load/loader.h"

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/lower_ascii.h"
#include "retrieval/load/html.h"
#include "retrieval/load/pdf.h"
#include "retrieval/load/records.h"

namespace makar {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxTitleLines = 40;
constexpr size_t kFirstBytes = 64 << 10;  // from which the format of a file is detected

// A heading without the blanks and # signs before and after it.
std::string heading_text(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n#");
  if (begin == std::string_view::npos) return "";
  const size_t end = text.find_last_not_of(" \t\r\n#");
  return std::string(text.substr(begin, end - begin + 1));
}

// The first heading of a Markdown text within its first lines.
std::string markdown_title(std::string_view text) {
  for (int line = 0; line < kMaxTitleLines && !text.empty(); ++line) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (text.starts_with('#')) return heading_text(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return "";
}

}  // namespace

const char* name(SourceFormat format) {
  switch (format) {
    case SourceFormat::kText:
      return "text";
    case SourceFormat::kMarkdown:
      return "markdown";
    case SourceFormat::kHtml:
      return "html";
    case SourceFormat::kPdf:
      return "pdf";
    case SourceFormat::kCsv:
      return "csv";
    case SourceFormat::kTsv:
      return "tsv";
    case SourceFormat::kJsonl:
      return "jsonl";
    case SourceFormat::kCranfield:
      return "cranfield";
  }
  return "";
}

std::optional<SourceFormat> source_format(const std::string& path, std::string_view first) {
  std::string extension = fs::path(path).extension().string();
  if (extension == ".gz" || extension == ".zst") extension = fs::path(path).stem().extension().string();
  extension = lower_ascii(extension);
  if (first.starts_with("%PDF-")) return SourceFormat::kPdf;
  static const std::vector<std::pair<std::string, SourceFormat>> kExtensions = {
      {".txt", SourceFormat::kText},          {".text", SourceFormat::kText},
      {".rst", SourceFormat::kText},          {".md", SourceFormat::kMarkdown},
      {".markdown", SourceFormat::kMarkdown}, {".html", SourceFormat::kHtml},
      {".htm", SourceFormat::kHtml},          {".xhtml", SourceFormat::kHtml},
      {".pdf", SourceFormat::kPdf},           {".csv", SourceFormat::kCsv},
      {".tsv", SourceFormat::kTsv},           {".jsonl", SourceFormat::kJsonl},
      {".ndjson", SourceFormat::kJsonl}};
  for (const auto& [known, format] : kExtensions)
    if (known == extension) return format;
  if (first.starts_with(".I ")) return SourceFormat::kCranfield;
  if (first.find('\0') != std::string_view::npos && detect_encoding(first) == TextEncoding::kUtf8)
    return std::nullopt;
  static const std::vector<std::string> kSkippedExtensions = {
      ".png", ".jpg",  ".jpeg", ".gif", ".zip",  ".gz",  ".zst",        ".tgz",
      ".bin", ".gguf", ".db",   ".so",  ".o",    ".exe", ".ico",        ".webp",
      ".mp3", ".mp4",  ".woff", ".ttf", ".json", ".qry", ".safetensors"};
  if (std::find(kSkippedExtensions.begin(), kSkippedExtensions.end(), extension) != kSkippedExtensions.end())
    return std::nullopt;
  return SourceFormat::kText;
}

Result<std::vector<std::string>> source_files(const std::vector<std::string>& paths) {
  std::vector<std::string> out;
  for (const std::string& path : paths) {
    if (!is_folder(path)) {
      if (!path_exists(path)) return error_of(Error::Kind::kNotFound, path, "no such file or folder");
      out.push_back(path);
      continue;
    }
    // Of a test collection only the documents, not the queries and judgements.
    if (is_file(path + "/corpus.jsonl") && is_file(path + "/queries.jsonl")) {
      out.push_back(path + "/corpus.jsonl");
      continue;
    }
    if (is_file(path + "/cran.all.1400") && is_file(path + "/cran.qry")) {
      out.push_back(path + "/cran.all.1400");
      continue;
    }
    std::vector<std::string> files;
    std::error_code code;
    fs::recursive_directory_iterator it(path, fs::directory_options::skip_permission_denied, code), end;
    if (code) return error_of(Error::Kind::kIo, path, "cannot list the folder: {}", code.message());
    for (; it != end; it.increment(code)) {
      if (code) return error_of(Error::Kind::kIo, path, "cannot list the folder: {}", code.message());
      if (it->path().filename().string().starts_with('.')) {
        it.disable_recursion_pending();
        continue;
      }
      std::error_code ignored;
      if (it->is_regular_file(ignored)) files.push_back(it->path().string());
    }
    std::sort(files.begin(), files.end());
    out.insert(out.end(), files.begin(), files.end());
  }
  return out;
}

Status load_bytes(std::string bytes, SourceFormat format, const std::string& place,
                  const SourceOptions& options, const DocumentSink& sink, BadRecords& bad) {
  if (format == SourceFormat::kJsonl && options.encoding == TextEncoding::kAuto) {
    bytes =
        to_utf8(bytes, bytes.starts_with("\xFF\xFE") || bytes.starts_with("\xFE\xFF") ? TextEncoding::kAuto
                                                                                      : TextEncoding::kUtf8);
  } else {
    bytes = to_utf8(bytes, options.encoding);
  }
  switch (format) {
    case SourceFormat::kCsv:
    case SourceFormat::kTsv:
      return load_table(std::move(bytes), format == SourceFormat::kTsv, place, options, sink, bad);
    case SourceFormat::kJsonl:
      return load_jsonl(std::move(bytes), place, options, sink, bad);
    case SourceFormat::kCranfield:
      return load_cranfield(std::move(bytes), place, sink, bad);
    default:
      break;
  }
  SourceDocument document;
  document.name = place;
  document.metadata = {{"format", name(format)}};
  if (format == SourceFormat::kHtml) {
    HtmlText page = read_html(bytes);
    document.title = std::move(page.title), document.text = std::move(page.text);
    document.index_title = !document.title.empty();
  } else {
    if (format == SourceFormat::kMarkdown) document.title = markdown_title(bytes);
    document.text = std::move(bytes);
  }
  if (document.title.empty()) document.title = fs::path(place).stem().string();
  if (document.text.find_first_not_of(" \t\r\n\f") == std::string::npos) {
    bad.add(place, "has no text");
    return Done{};
  }
  return sink(std::move(document));
}

Status load_file(const std::string& path, const SourceOptions& options, const DocumentSink& sink,
                 BadRecords& bad) {
  if (is_folder(path)) return error_at(path, "is a folder, expected a file");
  MAKAR_TRY(const auto stream, ByteStream::open(path));
  std::string bytes(kFirstBytes, '\0');
  MAKAR_TRY(const size_t size, stream->read({bytes.data(), bytes.size()}));
  bytes.resize(size);
  const auto format = source_format(path, bytes);
  if (!format) {
    bad.add(path, "is not a text, HTML, PDF, CSV or JSONL file");
    return Done{};
  }
  if (*format == SourceFormat::kPdf) {
    const auto text = read_pdf(path);
    if (!text.ok()) {
      bad.add(path, text.error().message);
      return Done{};
    }
    SourceOptions plain = options;
    plain.encoding = TextEncoding::kUtf8;
    return load_bytes(
        *text, SourceFormat::kText, path, plain,
        [&](SourceDocument document) {
          document.metadata["format"] = name(SourceFormat::kPdf);
          return sink(std::move(document));
        },
        bad);
  }
  const bool is_one_document =
      *format == SourceFormat::kText || *format == SourceFormat::kMarkdown || *format == SourceFormat::kHtml;
  MAKAR_TRY(const std::string rest,
            read_all(*stream, is_one_document ? options.document_bytes : options.file_bytes));
  bytes += rest;
  return load_bytes(std::move(bytes), *format, path, options, sink, bad);
}

}  // namespace makar

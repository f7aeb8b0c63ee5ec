#include "serve/api/multipart.h"

#include <algorithm>

#include "base/lower_ascii.h"

namespace makar {
namespace {

constexpr size_t kMaxFormParts = 32, kMaxPartHeadBytes = 8192, kMaxBoundaryBytes = 70,
                 kMaxPartNameBytes = 1024;

std::string_view without_blanks(std::string_view text) {
  const size_t from = text.find_first_not_of(" \t");
  return from == text.npos ? "" : text.substr(from, text.find_last_not_of(" \t") - from + 1);
}

// The value of `; name=value` or `; name="value"` in a header; none if it is absent.
std::optional<std::string> parameter(std::string_view header, std::string_view name) {
  size_t at = header.find(';');
  while (at != header.npos) {
    const size_t equals = header.find('=', at);
    if (equals == header.npos) return std::nullopt;
    const std::string key = lower_ascii(without_blanks(header.substr(at + 1, equals - at - 1)));
    std::string value;
    size_t i = equals + 1;
    if (i < header.size() && header[i] == '"') {
      for (++i; i < header.size() && header[i] != '"'; ++i) {
        if (header[i] == '\\' && i + 1 < header.size() && (header[i + 1] == '"' || header[i + 1] == '\\'))
          ++i;
        value += header[i];
      }
      at = header.find(';', std::min(i, header.size()));
    } else {
      at = header.find(';', i);
      value = without_blanks(header.substr(i, at == header.npos ? at : at - i));
    }
    if (key == name) return value;
  }
  return std::nullopt;
}

// Parses the headers of a part: its name and file name.
Result<FormPart> read_head(std::string_view head) {
  for (size_t from = 0; from < head.size();) {
    const size_t end = std::min(head.find("\r\n", from), head.size());
    const std::string_view line = head.substr(from, end - from);
    from = end + 2;
    const size_t colon = line.find(':');
    if (colon == line.npos || lower_ascii(without_blanks(line.substr(0, colon))) != "content-disposition")
      continue;
    const std::string_view value = without_blanks(line.substr(colon + 1));
    if (lower_ascii(value.substr(0, value.find(';'))) != "form-data")
      return error_at("body", "each part of a form must have the disposition form-data");
    auto name = parameter(value, "name");
    if (!name || name->empty() || name->size() > kMaxPartNameBytes)
      return error_at("body", "each part of a form must have a name of 1 to {} bytes", kMaxPartNameBytes);
    return FormPart{std::move(*name), parameter(value, "filename"), {}};
  }
  return error_at("body", "a part of the form has no content-disposition");
}

}  // namespace

Result<std::string> form_boundary(const std::string& content_type) {
  const std::string kind =
      lower_ascii(without_blanks(std::string_view(content_type).substr(0, content_type.find(';'))));
  if (kind != "multipart/form-data") return error_at("body", "expected a form (multipart/form-data)");
  auto boundary = parameter(content_type, "boundary");
  if (!boundary || boundary->empty() || boundary->size() > kMaxBoundaryBytes)
    return error_at("body", "the content-type of a form must have a boundary of 1 to {} bytes",
                    kMaxBoundaryBytes);
  return std::move(*boundary);
}

Result<std::vector<FormPart>> read_form(std::string_view body, const std::string& boundary) {
  const std::string delimiter = "\r\n--" + boundary;
  std::vector<FormPart> parts;
  // The first boundary has no preceding CRLF unless there is a preamble.
  size_t at =
      body.starts_with(std::string_view(delimiter).substr(2)) ? delimiter.size() - 2 : body.find(delimiter);
  if (at == body.npos) return error_at("body", "does not contain the boundary of its content-type");
  if (!body.starts_with(std::string_view(delimiter).substr(2))) at += delimiter.size();
  for (;;) {
    if (body.substr(at, 2) == "--") return parts;
    const size_t line = body.find("\r\n", at);
    if (line == body.npos || !without_blanks(body.substr(at, line - at)).empty())
      return error_at("body", "the form ends in the middle of a boundary");
    // Every valid part has at least one header, for its name.
    const size_t head_end = body.substr(0, line + 2 + kMaxPartHeadBytes).find("\r\n\r\n", line + 2);
    if (head_end == body.npos)
      return error_at("body", "the headers of a part do not end within {} bytes", kMaxPartHeadBytes);
    MAKAR_TRY(FormPart part, read_head(body.substr(line + 2, head_end - line - 2)));
    const size_t from = head_end + 4, end = body.find(delimiter, head_end + 2);
    if (end == body.npos) return error_at("body", "the form ends in the middle of part {}", parts.size() + 1);
    // For an empty part, the boundary may start at the CRLF that ends the headers.
    part.data = end < from ? std::string_view() : body.substr(from, end - from);
    parts.push_back(std::move(part));
    if (parts.size() > kMaxFormParts)
      return error_at("body", "the form has more than {} parts", kMaxFormParts);
    at = end + delimiter.size();
  }
}

}  // namespace makar

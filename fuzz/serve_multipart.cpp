// Any bytes as a multipart form: an Error, or parts inside the body that are found again when the form is
// rebuilt.
#include <cstdint>
#include <cstdlib>

#include "serve/api/multipart.h"
#include "target.h"

FUZZ_TARGET(serve_multipart) {
  using namespace makar;
  const std::string text(reinterpret_cast<const char*>(data), size);
  // The first line is the content-type, the rest is the body.
  const size_t line = text.find('\n');
  const auto boundary = form_boundary(text.substr(0, line));
  if (!boundary.ok() || line == std::string::npos) return 0;
  const std::string body = text.substr(line + 1);
  const auto parts = read_form(body, *boundary);
  if (!parts.ok()) {
    if (parts.error().message.empty()) std::abort();
    return 0;
  }
  const std::string other_boundary = "fuzz-boundary-of-the-rebuilt-form";
  std::string again;
  for (const FormPart& part : *parts) {
    if (part.name.empty()) std::abort();
    if (!part.data.empty() &&
        (part.data.data() < body.data() || part.data.data() + part.data.size() > body.data() + body.size()))
      std::abort();
    if (part.data.find("\r\n--" + *boundary) != std::string_view::npos) std::abort();
    if (part.data.find(other_boundary) != std::string_view::npos) return 0;
    again += "--" + other_boundary + "\r\nContent-Disposition: form-data; name=x\r\n\r\n" +
             std::string(part.data) + "\r\n";
  }
  again += "--" + other_boundary + "--\r\n";
  const auto second = read_form(again, other_boundary);
  if (!second.ok() || second->size() != parts->size()) std::abort();
  for (size_t i = 0; i < parts->size(); ++i)
    if ((*second)[i].data != (*parts)[i].data || (*second)[i].name != "x") std::abort();
  return 0;
}

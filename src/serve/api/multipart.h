// Parses forms with files (multipart/form-data, RFC 7578). The data of the parts is not copied.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace makar {

struct FormPart {
  std::string name;
  std::optional<std::string> filename;  // only for files
  std::string_view data;                // a view into the body
};

// The boundary in a content-type header.
Result<std::string> form_boundary(const std::string& content_type);
// The parts of a body, in order.
Result<std::vector<FormPart>> read_form(std::string_view body, const std::string& boundary);

}  // namespace makar

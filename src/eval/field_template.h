// A field of a task that is computed from a document: the name of one of its fields, a Jinja template, or
// plain text.
#pragma once
#include <optional>

#include "text/template/chat_template.h"

namespace makar {

class FieldTemplate {
 public:
  FieldTemplate() = default;  // the empty text
  static Result<FieldTemplate> parse(const std::string& source, const std::string& place, bool field = false);

  // An undefined name is an error. A source that is one word must be a field if `field` is true.
  // A template of one expression, "{{ [a, b] }}", has the value of the expression; any other the text it
  // renders to.
  Result<Json> value(const Json& document) const;
  // The value as text.
  Result<std::string> text(const Json& document) const;
  const std::string& source() const { return source_; }
  bool empty() const { return source_.empty(); }

 private:
  std::string source_, place_;
  std::optional<ChatTemplate> template_;
  bool expression_ = false, field_ = false;
};

}  // namespace makar

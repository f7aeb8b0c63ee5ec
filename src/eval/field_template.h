// A field of a task that is computed from a document: the name of one of its fields, a Jinja template, or
// plain text.
#pragma once
#include <optional>

#include "text/template/chat_template.h"

namespace makar {

class FieldTemplate {
 public:
  FieldTemplate() = default;  // the empty text
  // `field`: a source that is one word must name a field of the document.
  static Result<FieldTemplate> parse(const std::string& source, const std::string& place, bool field = false);

  // An undefined name is an error. A template that is a single expression, "{{ [a, b] }}", has the value of
  // the expression; any other template has the text that it renders to.
  Result<Json> value(const Json& document) const;
  // The value as text.
  Result<std::string> text(const Json& document) const;
  const std::string& source() const { return source_; }
  bool empty() const { return source_.empty(); }

 private:
  std::string source_, place_;
  std::optional<ChatTemplate> template_;
  bool is_expression_ = false, must_be_field_ = false;
};

}  // namespace makar

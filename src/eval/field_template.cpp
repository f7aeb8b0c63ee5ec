#include "eval/field_template.h"

#include <cctype>

#include "base/nearest.h"
#include "base/quote.h"

namespace makar {
namespace {

bool is_word(const std::string& text) {
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0]))) return false;
  for (const char c : text)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') return false;
  return true;
}

// The inside of "{{ ... }}" if that is the whole template.
std::optional<std::string> only_expression(const std::string& source) {
  const size_t begin = source.find_first_not_of(" \n"), end = source.find_last_not_of(" \n");
  if (begin != 0 || end + 1 != source.size() || source.size() < 4) return std::nullopt;
  if (!source.starts_with("{{") || !source.ends_with("}}")) return std::nullopt;
  const std::string inside = source.substr(2, source.size() - 4);
  if (inside.find("{{") != std::string::npos || inside.find("}}") != std::string::npos ||
      inside.find("{%") != std::string::npos || inside.starts_with("-") || inside.ends_with("-"))
    return std::nullopt;
  return inside;
}

}  // namespace

Result<FieldTemplate> FieldTemplate::parse(const std::string& source, const std::string& place, bool field) {
  FieldTemplate out;
  out.source_ = source, out.place_ = place, out.must_be_field_ = field && is_word(source);
  if (source.find('{') == std::string::npos) return out;
  std::string jinja = source;
  if (const auto expression = only_expression(source)) {
    out.is_expression_ = true;
    jinja = "{{ (" + *expression + ") | tojson }}";
  } else if (source.ends_with("\n")) {
    jinja += "{{ '' }}";  // Jinja removes a line break at the end
  }
  MAKAR_TRY(out.template_, ChatTemplate::parse(jinja, place));
  return out;
}

Result<Json> FieldTemplate::value(const Json& document) const {
  if (!template_) {
    if (document.contains(source_)) return document[source_];
    if (!must_be_field_) return Json(source_);
    std::vector<std::string> known;
    for (const auto& item : document.items()) known.push_back(item.key());
    return error_at(place_, "the document has no field {}{}", quote(source_), did_you_mean(source_, known));
  }
  ChatInput input;
  input.strict = true;
  input.variables = document;
  auto rendering = template_->render(input);
  if (!rendering.ok()) return rendering.error();
  const std::string text = rendering->text();
  if (!is_expression_) return Json(text);
  return parse_json(text, place_);
}

Result<std::string> FieldTemplate::text(const Json& document) const {
  MAKAR_TRY(const Json result, value(document));
  return result.is_string() ? result.get<std::string>() : result.dump();
}

}  // namespace makar

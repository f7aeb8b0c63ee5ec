// Filters that return text or numbers.
#include <charconv>
#include <cmath>

#include "text/template/filters.h"
#include "text/template/format.h"
#include "text/template/text_operations.h"

namespace makar::jinja {
namespace {

template <Case to>
Value case_filter(Interpreter& in, const Value& v, const Arguments&) {
  return in.heap.string(change_case(soft_text(v, in), to, in.budget));
}

Value to_json_filter(Interpreter& in, const Value& v, const Arguments& a) {
  JsonStyle style;
  // transformers: tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False)
  if (const Value* ascii = a.get(SIZE_MAX, "ensure_ascii")) style.ascii = truthy(*ascii);
  if (const Value* indent = a.get(SIZE_MAX, "indent");
      indent || (!a.positional.empty() && (indent = &a.positional[0]))) {
    if (!indent->is_none()) {
      const int64_t n = integer_of(*indent, "indent");
      if (n > 64) fail_limit("tojson: the indent exceeds 64");
      style.indent = static_cast<int>(std::max<int64_t>(n, 0));
      style.item_separator = ",";
    }
  }
  if (const Value* separators = a.get(SIZE_MAX, "separators"); separators && !separators->is_none()) {
    const auto parts = iterate(*separators, in.heap);
    if (parts.size() != 2 || !parts[0].is_string() || !parts[1].is_string())
      fail("tojson: separators must be two strings");
    style.item_separator = parts[0].text(), style.key_separator = parts[1].text();
  }
  if (const Value* sort = a.get(SIZE_MAX, "sort_keys")) style.sort_keys = truthy(*sort);
  return in.heap.string(to_json(v, style, in.heap));
}

Value trim_filter(Interpreter& in, const Value& v, const Arguments& a) {
  const Value chars = a.get(0, "chars", Value::none());
  return in.heap.string(
      strip(soft_text(v, in), true, true, chars.is_string() ? &chars.text() : nullptr, in.budget));
}

Value replace_filter(Interpreter& in, const Value& v, const Arguments& a) {
  const int64_t count =
      a.get(2, "count") && !a.get(2, "count")->is_none() ? integer_of(*a.get(2, "count"), "count") : -1;
  return in.heap.string(
      replace(soft_text(v, in), soft_text(a.need(0, "old"), in), soft_text(a.need(1, "new"), in), count, in));
}

Value string_filter(Interpreter& in, const Value& v, const Arguments&) {
  return in.heap.string(soft_text(v, in));
}

Value int_filter(Interpreter& in, const Value& v, const Arguments& a) {
  const Value otherwise = a.get(0, "default", Value::integer(0));
  const int base =
      static_cast<int>(std::clamp<int64_t>(integer_of(a.get(1, "base", Value::integer(10)), "base"), 2, 36));
  if (v.is_undefined()) in.attribute(v, "a number");
  if (v.is_integer()) return Value::integer(v.integer()).with_origin(v.origin());
  double d = v.is(Kind::kFloat) ? v.real() : NAN;
  if (v.is_string()) {
    const Traced t = strip(v.traced(), true, true, nullptr, in.budget);
    const char *from = t.text().data(), *to = from + t.size();
    if (from != to && *from == '+') ++from;
    int64_t i = 0;
    if (const auto r = std::from_chars(from, to, i, base); r.ec == std::errc() && r.ptr == to)
      return Value::integer(i).with_origin(t.origins());
    if (const auto r = std::from_chars(from, to, d); r.ec != std::errc() || r.ptr != to) return otherwise;
  }
  if (!(std::fabs(d) < 9.2e18)) return otherwise;
  return Value::integer(static_cast<int64_t>(d))
      .with_origin(v.is_string() ? v.traced().origins() : v.origin());
}

Value float_filter(Interpreter& in, const Value& v, const Arguments& a) {
  const Value otherwise = a.get(0, "default", Value::real(0));
  if (v.is_undefined()) in.attribute(v, "a number");
  if (v.is_number()) return Value::real(v.real()).with_origin(v.origin());
  if (!v.is_string()) return otherwise;
  const Traced t = strip(v.traced(), true, true, nullptr, in.budget);
  double d = 0;
  const char *from = t.text().data(), *to = from + t.size();
  if (from != to && *from == '+') ++from;
  const auto r = std::from_chars(from, to, d);
  return r.ec == std::errc() && r.ptr == to ? Value::real(d).with_origin(t.origins()) : otherwise;
}

Value round_filter(Interpreter&, const Value& v, const Arguments& a) {
  if (!v.is_number()) fail(fmt::format("round needs a number, found {}", type_name(v)));
  const int64_t digits =
      std::clamp<int64_t>(integer_of(a.get(0, "precision", Value::integer(0)), "precision"), -300, 300);
  const Value method = a.get(1, "method", Value::none());
  const double scale = std::pow(10.0, static_cast<double>(digits)), x = v.real();
  if (method.is_string() && method.text() == "ceil")
    return Value::real(std::ceil(x * scale) / scale).with_origin(v.origin());
  if (method.is_string() && method.text() == "floor")
    return Value::real(std::floor(x * scale) / scale).with_origin(v.origin());
  if (digits > 15 || digits < 0)
    return Value::real(digits < 0 ? std::nearbyint(x * scale) / scale : x).with_origin(v.origin());
  // Round the decimal representation half to even, as Python does.
  return Value::real(std::strtod(fmt::format("{:.{}f}", x, digits).c_str(), nullptr)).with_origin(v.origin());
}

Value abs_filter(Interpreter&, const Value& v, const Arguments&) {
  if (!v.is_number()) fail(fmt::format("abs needs a number, found {}", type_name(v)));
  return v.real() < 0 ? negative(v) : v;
}

Value escape_filter(Interpreter& in, const Value& v, const Arguments&) {
  Traced t = soft_text(v, in);
  for (const auto& [from, to] :
       {std::pair{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"'", "&#39;"}, {"\"", "&#34;"}})
    t = replace(t, Traced(from), Traced(to, t.origins()), -1, in);
  return in.heap.string(std::move(t));
}

Value indent_filter(Interpreter& in, const Value& v, const Arguments& a) {
  const Value width = a.get(0, "width", Value::integer(4));
  const bool first = truthy(a.get(1, "first", Value::boolean(false))),
             blank = truthy(a.get(2, "blank", Value::boolean(false)));
  if (width.is_integer() && width.integer() > 1024) fail_limit("indent: the width exceeds 1024");
  const Traced indentation =
      width.is_string()
          ? width.traced()
          : Traced(std::string(static_cast<size_t>(std::max<int64_t>(integer_of(width, "width"), 0)), ' '));
  Traced text = soft_text(v, in);
  text.append("\n", kFromTemplate);  // as Jinja2 does, so that the last line is included
  Traced out;
  const std::vector<Value> lines = split_lines(text, false, in);
  for (size_t i = 0; i < lines.size(); ++i) {
    in.budget.touch(indentation.size());
    in.budget.check_allocation(out.size() + lines[i].traced().size() + indentation.size() + 1);
    if (i) out.append("\n", kFromTemplate);
    if (i == 0 ? first : blank || !lines[i].traced().empty()) out.append(indentation);
    out.append(lines[i].traced());
  }
  return in.heap.string(std::move(out));
}

Value format_filter(Interpreter& in, const Value& v, const Arguments& a) {
  return format_percent(soft_text(v, in), a, in);
}

Value safe_filter(Interpreter& in, const Value& v, const Arguments&) {
  return v.is_string() ? v : in.heap.string(soft_text(v, in));
}

Value wordcount_filter(Interpreter& in, const Value& v, const Arguments&) {
  return Value::integer(static_cast<int64_t>(split(soft_text(v, in), nullptr, -1, false, in).size()));
}

Value truncate_filter(Interpreter& in, const Value& v, const Arguments& a) {
  const int64_t max = integer_of(a.get(0, "length", Value::integer(255)), "length"),
                leeway = integer_of(a.get(3, "leeway", Value::integer(5)), "leeway");
  const bool kill_words = truthy(a.get(1, "killwords", Value::boolean(false)));
  const Value end = a.get(2, "end", in.heap.string("..."));
  const Value text = in.heap.string(soft_text(v, in));
  if (length(text) <= max + leeway) return text;
  const Value stop = Value::integer(max - length(end));
  Value shortened = slice(text, nullptr, &stop, nullptr, in);
  if (const auto space = shortened.text().rfind(' '); !kill_words && space != std::string::npos)
    shortened = in.heap.string(shortened.traced().slice(0, space));
  return arithmetic("+", shortened, end, in);
}

}  // namespace

const std::vector<FilterEntry>& text_filters() {
  static const std::vector<FilterEntry> table = {
      {"tojson", to_json_filter},
      {"trim", trim_filter},
      {"upper", case_filter<Case::kUpper>},
      {"lower", case_filter<Case::kLower>},
      {"title", case_filter<Case::kWords>},
      {"capitalize", case_filter<Case::kCapitalize>},
      {"replace", replace_filter},
      {"string", string_filter},
      {"int", int_filter},
      {"float", float_filter},
      {"round", round_filter},
      {"abs", abs_filter},
      {"escape", escape_filter},
      {"e", escape_filter},
      {"forceescape", escape_filter},
      {"indent", indent_filter},
      {"format", format_filter},
      {"safe", safe_filter},
      {"wordcount", wordcount_filter},
      {"truncate", truncate_filter},
  };
  return table;
}

}  // namespace makar::jinja

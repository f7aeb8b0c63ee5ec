#include "text/template/format.h"

#include <cmath>

namespace makar::jinja {
namespace {

constexpr int kMaxFieldWidth = 4096;

void pad(Traced& out, const Traced& part, size_t width, bool left) {
  const size_t characters = count_code_points(part.text());
  const std::string blanks(width > characters ? width - characters : 0, ' ');
  if (!left) out.append(blanks, kFromTemplate);
  out.append(part);
  if (left) out.append(blanks, kFromTemplate);
}

std::string format_number(char conversion, const Value& v, const std::string& flags, int width,
                          int precision) {
  if (!v.is_number()) fail(fmt::format("%{} needs a number, found {}", conversion, type_name(v)));
  char buffer[kMaxFieldWidth + 512];
  const bool is_integer = std::string_view("dixXo").find(conversion) != std::string_view::npos;
  std::string spec = "%" + flags + "*.*";
  spec +=
      is_integer ? std::string("ll") + (conversion == 'i' ? 'd' : conversion) : std::string(1, conversion);
  if (is_integer) {
    if (!v.is_integer() && !(std::fabs(v.real()) < 9.2e18))
      fail(fmt::format("%{} needs a finite number that fits into 64 bits", conversion));
    const long long i = v.is_integer() ? v.integer() : static_cast<long long>(v.real());
    std::snprintf(buffer, sizeof buffer, spec.c_str(), width, precision, i);
  } else {
    std::snprintf(buffer, sizeof buffer, spec.c_str(), width, precision, v.real());
  }
  return buffer;
}

}  // namespace

Value format_percent(const Traced& format, const Arguments& arguments, Interpreter& in) {
  const std::string& s = format.text();
  Traced out;
  size_t next_argument = 0;
  for (size_t i = 0; i < s.size();) {
    in.budget.spend();
    if (s[i] != '%') {
      const size_t end = std::min(s.find('%', i), s.size());
      out.append(format, i, end);
      i = end;
      continue;
    }
    size_t p = i + 1;
    std::string flags, key;
    if (p < s.size() && s[p] == '(') {
      const size_t close = s.find(')', p);
      if (close == std::string::npos) fail("the format has an unclosed %(");
      key = s.substr(p + 1, close - p - 1), p = close + 1;
    }
    while (p < s.size() && std::string_view("-+ 0#").find(s[p]) != std::string_view::npos && flags.size() < 5)
      flags += s[p++];
    const auto digits = [&](int otherwise) {
      int n = otherwise;
      for (; p < s.size() && std::isdigit(static_cast<unsigned char>(s[p])); ++p) {
        n = std::max(n, 0) * 10 + (s[p] - '0');
        if (n > kMaxFieldWidth)
          fail_limit(fmt::format("a field of the format is wider than {}", kMaxFieldWidth));
      }
      return n;
    };
    const int width = digits(0);
    int precision = -1;
    if (p < s.size() && s[p] == '.') ++p, precision = digits(0);
    if (p >= s.size()) fail("the format ends inside a conversion");
    const char c = s[p];
    i = p + 1;
    if (c == '%') {
      out.append("%", kFromTemplate);
      continue;
    }
    Value v;
    if (!key.empty()) {
      const Value* found = arguments.get(SIZE_MAX, key);
      if (!found && arguments.positional.size() == 1 && arguments.positional[0].is_dict())
        found = arguments.positional[0].dict().find(key);
      if (!found) fail("the format names '" + key.substr(0, 80) + "', which is not an argument");
      v = *found;
    } else {
      if (next_argument >= arguments.positional.size())
        fail("the format has more conversions than arguments");
      v = arguments.positional[next_argument++];
    }
    if (c == 's' || c == 'r') {
      Traced part = c == 's' ? print(v, in.heap) : repr(v, in.heap);
      pad(out, part, static_cast<size_t>(width), flags.find('-') != std::string::npos);
    } else if (std::string_view("dixXofFeEgG").find(c) != std::string_view::npos) {
      out.append(format_number(c, v, flags, width, precision), v.origin());
    } else {
      fail(fmt::format("the conversion %{} is not supported", c));
    }
    in.budget.check_allocation(out.size());
  }
  return in.heap.string(std::move(out));
}

Value format_braces(const Traced& format, const Arguments& arguments, Interpreter& in) {
  const std::string& s = format.text();
  Traced out;
  size_t next_argument = 0;
  for (size_t i = 0; i < s.size();) {
    in.budget.spend();
    const char c = s[i];
    if (c != '{' && c != '}') {
      const size_t end = std::min(s.find_first_of("{}", i), s.size());
      out.append(format, i, end);
      i = end;
      continue;
    }
    if (i + 1 < s.size() && s[i + 1] == c) {
      out.append(format, i, i + 1);
      i += 2;
      continue;
    }
    const size_t close = s.find('}', i);
    if (c == '}' || close == std::string::npos) fail("the format has a single brace");
    const std::string field = s.substr(i + 1, close - i - 1);
    const bool index = field.empty() || field.find_first_not_of("0123456789") == std::string::npos;
    if (field.size() > 80 || (!index && field.find_first_of(".[!:") != std::string::npos))
      fail("format supports {}, {0} and {name} only, found {" + field.substr(0, 80) + "}");
    const size_t at = field.empty() ? next_argument++
                      : index       ? std::min<size_t>(std::strtoull(field.c_str(), nullptr, 10), 1u << 20)
                                    : SIZE_MAX;
    const Value* v = arguments.get(at, field);
    if (!v) fail("the format names '" + field + "', which is not an argument");
    const Traced part = print(*v, in.heap);
    in.budget.check_allocation(out.size() + part.size());
    out.append(part);
    i = close + 1;
  }
  return in.heap.string(std::move(out));
}

}  // namespace makar::jinja

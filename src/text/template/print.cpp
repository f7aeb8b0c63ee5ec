#include "text/template/print.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace makar::jinja {
namespace {

// Appends text within the budget.
class Writer {
 public:
  explicit Writer(Heap& heap) : heap_(heap) {}
  void put(std::string_view text, Origin origin) {
    reserve(text.size());
    out_.append(text, origin);
  }
  void put(const Traced& text, size_t begin, size_t end) {
    reserve(end - begin);
    out_.append(text, begin, end);
  }
  Traced take() { return std::move(out_); }
  Heap& heap() { return heap_; }

 private:
  void reserve(size_t bytes) {
    heap_.budget.touch(bytes);
    heap_.budget.check_allocation(out_.size() + bytes);
  }
  Heap& heap_;
  Traced out_;
};

void write_repr(const Traced& t, Writer& w) {
  const std::string& s = t.text();
  const bool double_quotes = s.find('\'') != std::string::npos && s.find('"') == std::string::npos;
  const char quote = double_quotes ? '"' : '\'';
  const Origin outer = s.empty() ? kFromTemplate : t.origin_at(0);
  w.put(std::string(1, quote), outer);
  for (size_t i = 0; i < s.size();) {
    size_t n;
    const char32_t c = code_point(s, i, &n);
    const Origin origin = t.origin_at(i);
    if (c == static_cast<char32_t>(quote) || c == '\\')
      w.put(std::string{'\\', static_cast<char>(c)}, origin);
    else if (c == '\n')
      w.put("\\n", origin);
    else if (c == '\r')
      w.put("\\r", origin);
    else if (c == '\t')
      w.put("\\t", origin);
    else if (c < 0x20 || (c >= 0x7F && c < 0xA1) || c == 0xAD)
      w.put(fmt::format("\\x{:02x}", static_cast<uint32_t>(c)), origin);
    else if (c != ' ' && is_blank(c))
      w.put(fmt::format("\\u{:04x}", static_cast<uint32_t>(c)), origin);
    else
      w.put(t, i, i + n);
    i += n;
  }
  w.put(std::string(1, quote), outer);
}

void write(const Value& v, Writer& w, bool quoted) {
  w.heap().budget.spend();
  const Origin o = v.origin();
  switch (v.kind()) {
    case Kind::kUndefined:
      return quoted ? w.put("Undefined", o) : void();
    case Kind::kNone:
      return w.put("None", o);
    case Kind::kBool:
      return w.put(v.integer() ? "True" : "False", o);
    case Kind::kInt:
      return w.put(std::to_string(v.integer()), o);
    case Kind::kFloat:
      return w.put(print_float(v.real()), o);
    case Kind::kString:
      return quoted ? write_repr(v.traced(), w) : w.put(v.traced(), 0, v.traced().size());
    case Kind::kList:
    case Kind::kTuple: {
      const bool tuple = v.is(Kind::kTuple);
      w.put(tuple ? "(" : "[", o);
      bool first = true;
      for (const Value& item : v.items()) {
        if (!std::exchange(first, false)) w.put(", ", o);
        write(item, w, true);
      }
      return w.put(tuple ? (v.items().size() == 1 ? ",)" : ")") : "]", o);
    }
    case Kind::kDict: {
      w.put("{", o);
      bool first = true;
      for (const auto& [key, value] : v.dict().items) {
        if (!std::exchange(first, false)) w.put(", ", o);
        write(key, w, true);
        w.put(": ", o);
        write(value, w, true);
      }
      return w.put("}", o);
    }
    default:
      fail(fmt::format("a value of type {} cannot be printed{}", type_name(v),
                       v.is(Kind::kCallable) ? "; is a pair of parentheses missing?" : ""));
  }
}

void write_json_string(const Traced& t, const JsonStyle& style, Writer& w) {
  const std::string& s = t.text();
  const Origin outer = s.empty() ? kFromTemplate : t.origin_at(0);
  w.put("\"", outer);
  size_t written = 0;
  for (size_t i = 0; i < s.size();) {
    size_t n = 1;
    const auto byte = static_cast<unsigned char>(s[i]);
    const char32_t c = byte < 0x80 ? byte : code_point(s, i, &n);
    std::string escaped;
    if (c == '"' || c == '\\')
      escaped = {'\\', static_cast<char>(c)};
    else if (c == '\n')
      escaped = "\\n";
    else if (c == '\r')
      escaped = "\\r";
    else if (c == '\t')
      escaped = "\\t";
    else if (c == '\b')
      escaped = "\\b";
    else if (c == '\f')
      escaped = "\\f";
    else if (c < 0x20 || (style.ascii && c > 0x7F && c < 0x10000))
      escaped = fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
    else if (style.ascii && c >= 0x10000)
      escaped = fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((static_cast<uint32_t>(c) - 0x10000) >> 10),
                            0xDC00 + (static_cast<uint32_t>(c) & 0x3FF));
    if (!escaped.empty()) {
      w.put(t, written, i);
      w.put(escaped, t.origin_at(i));
      written = i + n;
    }
    i += n;
  }
  w.put(t, written, s.size());
  w.put("\"", outer);
}

class JsonWriter {
 public:
  JsonWriter(const JsonStyle& style, Writer& w) : style_(style), w_(w) {}

  void write(const Value& v, int level) {
    w_.heap().budget.spend();
    const Origin o = v.origin();
    switch (v.kind()) {
      case Kind::kNone:
        return w_.put("null", o);
      case Kind::kBool:
        return w_.put(v.integer() ? "true" : "false", o);
      case Kind::kInt:
        return w_.put(std::to_string(v.integer()), o);
      case Kind::kFloat:
        return w_.put(number(v.real()), o);
      case Kind::kString:
        return write_json_string(v.traced(), style_, w_);
      case Kind::kList:
      case Kind::kTuple: {
        if (v.items().empty()) return w_.put("[]", o);
        open("[", o, level);
        for (size_t i = 0; i < v.items().size(); ++i) {
          if (i) next(o, level);
          write(v.items()[i], level + 1);
        }
        return close("]", o, level);
      }
      case Kind::kDict:
        return object(v, level);
      default:
        fail(fmt::format("tojson: a value of type {} has no JSON form", type_name(v)));
    }
  }

 private:
  void object(const Value& v, int level) {
    const Origin o = v.origin();
    auto items = v.dict().items;
    if (items.empty()) return w_.put("{}", o);
    if (style_.sort_keys)
      std::stable_sort(items.begin(), items.end(), [&](const auto& a, const auto& b) {
        return compare(a.first, b.first, w_.heap().budget) < 0;
      });
    open("{", o, level);
    for (size_t i = 0; i < items.size(); ++i) {
      if (i) next(o, level);
      const Value& key = items[i].first;
      if (key.is_string()) {
        write_json_string(key.traced(), style_, w_);
      } else {
        if (!key.is_number() && !key.is_none())
          fail(fmt::format("tojson: a key of type {} has no JSON form", type_name(key)));
        w_.put("\"", o);
        write(key, level);
        w_.put("\"", o);
      }
      w_.put(style_.key_separator, o);
      write(items[i].second, level + 1);
    }
    close("}", o, level);
  }
  static std::string number(double d) {
    return std::isnan(d) ? "NaN" : std::isinf(d) ? (d > 0 ? "Infinity" : "-Infinity") : print_float(d);
  }
  void new_line(Origin o, int level) {
    if (style_.indent) w_.put("\n" + std::string(static_cast<size_t>(*style_.indent * level), ' '), o);
  }
  void open(const char* bracket, Origin o, int level) { w_.put(bracket, o), new_line(o, level + 1); }
  void next(Origin o, int level) { w_.put(style_.item_separator, o), new_line(o, level + 1); }
  void close(const char* bracket, Origin o, int level) { new_line(o, level), w_.put(bracket, o); }

  const JsonStyle& style_;
  Writer& w_;
};

}  // namespace

std::string print_float(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d > 0 ? "inf" : "-inf";
  // Python's float format: the shortest digits that parse to the same value; an exponent below 1e-4 and from
  // 1e16 on.
  char buffer[400];
  const double magnitude = std::fabs(d);
  const bool plain = d == 0 || (magnitude >= 1e-4 && magnitude < 1e16);
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, d,
                                 plain ? std::chars_format::fixed : std::chars_format::scientific)
                       .ptr;
  std::string out(buffer, end);
  if (plain && out.find('.') == std::string::npos) out += ".0";
  return out;
}

Traced print(const Value& v, Heap& heap) {
  Writer w(heap);
  write(v, w, false);
  return w.take();
}

Traced repr(const Value& v, Heap& heap) {
  Writer w(heap);
  write(v, w, true);
  return w.take();
}

Traced to_json(const Value& v, const JsonStyle& style, Heap& heap) {
  Writer w(heap);
  JsonWriter(style, w).write(v, 0);
  return w.take();
}

}  // namespace makar::jinja

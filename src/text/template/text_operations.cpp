#include "text/template/text_operations.h"

#include <utf8proc.h>

namespace makar::jinja {

Traced change_case(const Traced& text, Case to, Budget& budget) {
  budget.spend(static_cast<int64_t>(text.size() / 8));
  Traced out;
  const std::string& s = text.text();
  bool word = false;  // inside a word, for title and capitalize
  for (size_t i = 0; i < s.size();) {
    size_t n;
    const auto c = static_cast<utf8proc_int32_t>(code_point(s, i, &n));
    const utf8proc_int32_t low = utf8proc_tolower(c), up = utf8proc_toupper(c);
    const bool letter = low != c || up != c;
    bool upper = to == Case::kUpper || (to == Case::kSwap && low == c);
    const bool title_case = to == Case::kTitle || to == Case::kCapitalize || to == Case::kWords;
    if (title_case) upper = !word;
    // str.title starts a word at every letter after a non-letter; Jinja2's filter only after whitespace and
    // brackets.
    if (to == Case::kWords)
      word =
          !(is_blank(static_cast<char32_t>(c)) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<');
    else
      word = to == Case::kTitle ? letter : true;
    const utf8proc_int32_t changed = upper ? (title_case ? utf8proc_totitle(c) : up) : low;
    if (c == 0xDF && upper) {
      out.append(title_case ? "Ss" : "SS", text.origin_at(i));
    } else if (changed == c) {
      out.append(text, i, i + n);
    } else {
      std::string character;
      append_utf8(character, static_cast<char32_t>(changed));
      out.append(character, text.origin_at(i));
    }
    i += n;
  }
  return out;
}

Traced strip(const Traced& text, bool left, bool right, const std::string* chars, Budget& budget) {
  budget.touch(text.size());
  const ByteRange r = strip_range(text.text(), left, right, chars);
  return r.begin == 0 && r.end == text.size() ? text : text.slice(r.begin, r.end);
}

Traced replace(const Traced& text, const Traced& from, const Traced& to, int64_t count, Interpreter& in) {
  in.budget.touch(text.size());
  const std::string& s = text.text();
  Traced out;
  size_t at = 0;
  const auto reserve = [&] {
    in.budget.touch(to.size());
    in.budget.check_allocation(out.size() + to.size());
  };
  if (from.empty()) {
    for (size_t i = 0; i <= s.size() && count != 0; --count) {
      reserve();
      out.append(to);
      if (i == s.size()) return out;
      const size_t n = utf8_size(s[i]);
      out.append(text, i, i + n);
      at = i += n;
    }
  } else {
    for (size_t hit; count != 0 && (hit = s.find(from.text(), at)) != std::string::npos; --count) {
      reserve();
      out.append(text, at, hit);
      out.append(to);
      at = hit + from.size();
    }
  }
  if (at == 0) return text;
  out.append(text, at, s.size());
  return out;
}

std::vector<Value> split(const Traced& text, const std::string* separator, int64_t max, bool from_right,
                         Interpreter& in) {
  if (separator && separator->empty()) fail("split needs a separator that is not empty");
  in.budget.touch(text.size());
  const std::string& s = text.text();
  std::vector<std::pair<size_t, size_t>> parts;
  if (separator) {
    std::vector<size_t> hits;
    for (size_t at = 0; (at = s.find(*separator, at)) != std::string::npos; at += separator->size())
      hits.push_back(at);
    const size_t split_count =
        max < 0 ? hits.size() : std::min<size_t>(hits.size(), static_cast<size_t>(max));
    if (from_right)
      hits.erase(hits.begin(), hits.end() - static_cast<std::ptrdiff_t>(split_count));
    else
      hits.resize(split_count);
    size_t begin = 0;
    for (const size_t hit : hits) parts.emplace_back(begin, hit), begin = hit + separator->size();
    parts.emplace_back(begin, s.size());
  } else {
    size_t at = strip_range(s, true, false).begin;
    while (at < s.size()) {
      size_t end = at, n;
      if (max >= 0 && static_cast<int64_t>(parts.size()) >= max)
        end = s.size();
      else
        while (end < s.size() && !is_blank(code_point(s, end, &n))) end += n;
      parts.emplace_back(at, end);
      at = end + strip_range(std::string_view(s).substr(end), true, false).begin;
    }
  }
  in.budget.check_allocation(parts.size() * sizeof(Value));
  in.budget.spend(static_cast<int64_t>(parts.size()));
  std::vector<Value> out;
  for (const auto& [begin, end] : parts) out.push_back(in.heap.string(text.slice(begin, end)));
  return out;
}

std::vector<Value> split_lines(const Traced& text, bool keep_ends, Interpreter& in) {
  const std::string& s = text.text();
  in.budget.touch(s.size());
  std::vector<Value> out;
  for (size_t at = 0; at < s.size();) {
    in.budget.spend();
    size_t end = std::min(s.find_first_of("\r\n", at), s.size()), after = end;
    if (end < s.size()) after = end + (s[end] == '\r' && end + 1 < s.size() && s[end + 1] == '\n' ? 2 : 1);
    out.push_back(in.heap.string(text.slice(at, keep_ends ? after : end)));
    at = after;
  }
  return out;
}

Traced join(const std::vector<Value>& items, const Traced& separator, Interpreter& in) {
  Traced out;
  for (size_t i = 0; i < items.size(); ++i) {
    const Traced part = print(items[i], in.heap);
    in.budget.touch(part.size() + separator.size());
    in.budget.check_allocation(out.size() + part.size() + separator.size());
    if (i) out.append(separator);
    out.append(part);
  }
  return out;
}

int64_t integer_of(const Value& v, const char* what) {
  if (!v.is_integer()) fail(fmt::format("{} must be an integer, found {}", what, type_name(v)));
  return v.integer();
}

Traced soft_text(const Value& v, Interpreter& in) { return v.is_string() ? v.traced() : print(v, in.heap); }

}  // namespace makar::jinja

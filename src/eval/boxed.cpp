#include "eval/boxed.h"

#include <algorithm>
#include <cctype>

#include "base/replace.h"

namespace makar {
namespace {

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The end of the group that opens at `open`, after its closing brace; npos if it does not close.
size_t group_end(const std::string& text, size_t open) {
  int64_t depth = 0;
  for (size_t i = open; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
      continue;
    }
    depth += text[i] == '{' ? 1 : text[i] == '}' ? -1 : 0;
    if (depth == 0) return i + 1;
  }
  return std::string::npos;
}

// Adds braces to arguments of `command` that are a single character: \frac12 becomes \frac{1}{2}.
std::string with_braces(const std::string& text, const std::string& command, int arguments) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const bool found =
        text.compare(i, command.size(), command) == 0 &&
        (i + command.size() >= text.size() || !is_letter(text[i + command.size()]) || command == "\\sqrt");
    if (!found) {
      out += text[i++];
      continue;
    }
    out += command, i += command.size();
    for (int a = 0; a < arguments && i < text.size(); ++a) {
      if (text[i] == '{' || text[i] == '[' || text[i] == '\\') break;
      out += std::string("{") + text[i++] + "}";
    }
  }
  return out;
}

// \frac{a}{b} for a/b of two integers; other text is unchanged.
std::string as_fraction(const std::string& text) {
  const size_t slash = text.find('/');
  const size_t begin = text.starts_with("-") ? 1 : 0;
  if (slash == std::string::npos || slash == begin || slash + 1 == text.size()) return text;
  for (size_t i = begin; i < text.size(); ++i)
    if (i != slash && !is_digit(text[i])) return text;
  return text.substr(0, begin) + "\\frac{" + text.substr(begin, slash - begin) + "}{" +
         text.substr(slash + 1) + "}";
}

}  // namespace

std::optional<std::string> last_boxed(const std::string& text) {
  const size_t boxed = text.rfind("\\boxed"), framed = text.rfind("\\fbox");
  size_t at = boxed == std::string::npos ? framed : boxed;
  if (at == std::string::npos) return std::nullopt;
  at += text[at + 1] == 'b' ? 6 : 5;
  if (at < text.size() && text[at] == ' ') {
    const size_t end = std::min(text.find_first_of(" $\n", at + 1), text.size());
    return text.substr(at + 1, end - at - 1);
  }
  if (at >= text.size() || text[at] != '{') return std::nullopt;
  const size_t end = group_end(text, at);
  if (end == std::string::npos) return std::nullopt;
  return text.substr(at + 1, end - at - 2);
}

std::string normalize_math(std::string text) {
  for (const char* ignored :
       {"\n", "\\!", "\\,", "\\;", "\\ ", "\\left", "\\right", "\\$", "^{\\circ}", "^\\circ", "\\%", "%"})
    text = replace_all(text, ignored, "");
  text = replace_all(text, "\\\\", "\\");
  for (const char* fraction : {"\\dfrac", "\\tfrac", "\\cfrac"}) text = replace_all(text, fraction, "\\frac");
  // A unit at the end: 5\text{ cm}.
  if (const size_t unit = text.rfind("\\text{ ");
      unit != std::string::npos && unit > 0 && group_end(text, unit + 5) == text.size())
    text.resize(unit);
  if (text.starts_with("\\text{") && group_end(text, 5) == text.size())
    text = text.substr(6, text.size() - 7);
  std::erase(text, ' '), std::erase(text, '$');
  if (text.starts_with(".")) text = "0" + text;
  text = replace_all(replace_all(text, "{.", "{0."), "-.", "-0.");
  if (const size_t equals = text.find('=');
      equals != std::string::npos && equals <= 2 && equals > 0 &&
      std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(equals), is_letter))
    text = text.substr(equals + 1);
  text = with_braces(text, "\\sqrt", 1);
  text = with_braces(text, "\\frac", 2);
  return as_fraction(text);
}

}  // namespace makar

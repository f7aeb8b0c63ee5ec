// The cleaners of HTML and wiki markup.
#include <algorithm>
#include <unordered_set>

#include "base/utf8.h"
#include "curate/clean.h"
#include "curate/clean_text.h"

namespace makar {
namespace {

// Whether `prefix` (lower case) begins at `at`, ignoring case.
bool starts_with_at(std::string_view text, size_t at, std::string_view prefix) {
  if (text.size() - at < prefix.size()) return false;
  for (size_t i = 0; i < prefix.size(); ++i)
    if (lower_ascii(text[at + i]) != prefix[i]) return false;
  return true;
}

// The first position at or after `at` where `what` (lower case) begins; the end if there is none.
size_t find_lower(std::string_view text, size_t at, std::string_view what) {
  for (; at + what.size() <= text.size(); ++at)
    if (starts_with_at(text, at, what)) return at;
  return text.size();
}

// Appends the character of the entity at `at` ("&amp;") and sets `end` to the end of the entity; false if
// there is none.
bool append_entity(std::string_view text, size_t at, std::string& out, size_t& end) {
  static constexpr std::pair<const char*, const char*> kNamed[] = {
      {"amp", "&"},         {"lt", "<"},         {"gt", ">"},         {"quot", "\""},
      {"apos", "'"},        {"nbsp", " "},       {"ndash", "\u2013"}, {"mdash", "\u2014"},
      {"hellip", "\u2026"}, {"rsquo", "\u2019"}, {"lsquo", "\u2018"}, {"ldquo", "\u201C"},
      {"rdquo", "\u201D"},  {"copy", "\u00A9"},  {"euro", "\u20AC"},  {"eacute", "\u00E9"},
      {"auml", "\u00E4"},   {"ouml", "\u00F6"},  {"uuml", "\u00FC"},  {"szlig", "\u00DF"}};
  const size_t semicolon = text.substr(at, 12).find(';');
  if (semicolon == text.npos || semicolon < 2) return false;
  const std::string_view name = text.substr(at + 1, semicolon - 1);
  end = at + semicolon + 1;
  for (const auto& [known, value] : kNamed)
    if (name == known) return out += value, true;
  if (name[0] != '#' || name.size() < 2) return false;
  const bool hex = lower_ascii(name[1]) == 'x';
  uint32_t code = 0;
  for (const char c : name.substr(hex ? 2 : 1)) {
    const char l = lower_ascii(c);
    const int digit = l >= '0' && l <= '9' ? l - '0' : hex && l >= 'a' && l <= 'f' ? l - 'a' + 10 : -1;
    if (digit < 0) return false;
    code = code * (hex ? 16 : 10) + static_cast<uint32_t>(digit);
    if (code > 0x10FFFF) return false;
  }
  if (code < 0x20 || (code >= 0xD800 && code < 0xE000)) return false;
  return append_utf8(out, code), true;
}

// Whether a tag ends a line of text.
bool is_block(std::string_view name) {
  static const std::unordered_set<std::string> kBlocks = {
      "p",  "div", "br", "li", "ul",      "ol",      "tr",         "table", "h1", "h2",
      "h3", "h4",  "h5", "h6", "section", "article", "blockquote", "pre",   "hr", "td"};
  return kBlocks.contains(std::string(name));
}

// Elements without text: "<script", "<head", ...; null if another tag starts at `at`.
const char* skipped_element(std::string_view text, size_t at) {
  for (const char* name : {"script", "style", "noscript", "head", "svg"}) {
    const size_t end = at + 1 + std::string_view(name).size();
    if (starts_with_at(text, at + 1, name) && !is_ascii_letter(end < text.size() ? text[end] : ' '))
      return name;
  }
  return nullptr;
}

}  // namespace

std::string clean_html(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '&') {
      size_t end = 0;
      if (append_entity(text, at, out, end)) {
        at = end;
        continue;
      }
    }
    const bool tag =
        c == '<' && at + 1 < text.size() &&
        (is_ascii_letter(text[at + 1]) || text[at + 1] == '/' || text[at + 1] == '!' || text[at + 1] == '?');
    if (!tag) {
      out += c, ++at;
      continue;
    }
    if (text.substr(at).starts_with("<!--")) {
      at = std::min(text.find("-->", at + 4), text.size() - 3) + 3;
      continue;
    }
    if (const char* name = skipped_element(text, at)) {
      at = find_lower(text, at + 1, std::string("</") + name);
      at = std::min(text.find('>', at), text.size() - 1) + 1;
      continue;
    }
    size_t from = at + 1 + (text[at + 1] == '/'), end = from;
    while (end < text.size() && (is_ascii_letter(text[end]) || (text[end] >= '1' && text[end] <= '6'))) ++end;
    if (is_block(lower_ascii(text.substr(from, end - from)))) out += '\n';
    // Attribute values may contain '>'.
    char quote = 0;
    for (; end < text.size() && (quote || text[end] != '>'); ++end)
      if (quote ? text[end] == quote : text[end] == '"' || text[end] == '\'') quote = quote ? 0 : text[end];
    at = std::min(end + 1, text.size());
  }
  return out;
}

std::string clean_wiki(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    if (rest.starts_with("{{")) {
      at = balanced(text, at, "{{", "}}");
    } else if (rest.starts_with("{|")) {
      at = balanced(text, at, "{|", "|}");
    } else if (rest.starts_with("<ref")) {
      const size_t close = text.find('>', at);
      if (close != text.npos && text[close - 1] == '/')
        at = close + 1;
      else
        at = std::min(find_lower(text, at, "</ref>") + 6, text.size());
    } else if (rest.starts_with("[[")) {
      const size_t end = balanced(text, at, "[[", "]]");
      const bool closed = end >= 2 && text.substr(end - 2, 2) == "]]";
      const std::string_view inside = text.substr(at + 2, end - at - 2 - (closed ? 2 : 0));
      const std::string head = lower_ascii(inside.substr(0, 12));
      // Images and categories are not part of the text.
      if (!head.starts_with("file:") && !head.starts_with("image:") && !head.starts_with("category:") &&
          inside.find("[[") == inside.npos)
        out += inside.substr(inside.rfind('|') == inside.npos ? 0 : inside.rfind('|') + 1);
      at = end;
    } else if (rest.starts_with("[http")) {
      const size_t end = std::min(text.find(']', at), text.size());
      const std::string_view link = text.substr(at, end - at);
      if (const size_t space = link.find(' '); space != link.npos) out += link.substr(space + 1);
      at = std::min(end + 1, text.size());
    } else if (rest.starts_with("''")) {
      while (at < text.size() && text[at] == '\'') ++at;
    } else if ((at == 0 || text[at - 1] == '\n') &&
               (rest[0] == '=' || rest[0] == '*' || rest[0] == '#' || rest[0] == ':' || rest[0] == ';')) {
      const char symbol = rest[0];
      size_t end = std::min(text.find('\n', at), text.size());
      while (at < end && text[at] == symbol) ++at;
      while (at < end && text[at] == ' ') ++at;
      if (symbol == '=') {
        std::string_view title = trimmed_line(text.substr(at, end - at));
        while (!title.empty() && (title.back() == '=' || title.back() == ' ')) title.remove_suffix(1);
        out += title;
        at = end;
      }
    } else {
      out += text[at++];
    }
  }
  return clean_html(out);
}

}  // namespace makar

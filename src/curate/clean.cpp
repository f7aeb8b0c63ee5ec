#include "curate/clean.h"

#include <algorithm>
#include <array>
#include <unordered_set>

#include "base/utf8.h"
#include "text/hash.h"

namespace makar {
namespace {

char low(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }
std::string lower_ascii(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), low);
  return out;
}
bool is_letter(char c) { return low(c) >= 'a' && low(c) <= 'z'; }

bool starts_with_at(std::string_view text, size_t at, std::string_view with) {
  if (text.size() - at < with.size()) return false;
  for (size_t i = 0; i < with.size(); ++i)
    if (low(text[at + i]) != with[i]) return false;
  return true;
}

// The first place at or after `at` where `what` (lower case) begins; the end if there is none.
size_t find_lower(std::string_view text, size_t at, std::string_view what) {
  for (; at + what.size() <= text.size(); ++at)
    if (starts_with_at(text, at, what)) return at;
  return text.size();
}

// The entity at `at` ("&amp;"): its character, and its end; false if there is none.
bool entity(std::string_view text, size_t at, std::string& out, size_t& end) {
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
  const bool hex = low(name[1]) == 'x';
  uint32_t code = 0;
  for (const char c : name.substr(hex ? 2 : 1)) {
    const char l = low(c);
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

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> out;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

std::string_view trimmed_line(std::string_view line) {
  const size_t from = line.find_first_not_of(" \t\r");
  if (from == line.npos) return {};
  return line.substr(from, line.find_last_not_of(" \t\r") + 1 - from);
}

// The end of a balanced pair that opens at `at`, such as {{ }}; the end of the text if it stays open.
size_t balanced(std::string_view text, size_t at, std::string_view open, std::string_view close) {
  int depth = 0;
  while (at < text.size()) {
    if (text.substr(at).starts_with(open)) {
      ++depth, at += open.size();
    } else if (text.substr(at).starts_with(close)) {
      at += close.size();
      if (--depth == 0) return at;
    } else {
      ++at;
    }
  }
  return at;
}

}  // namespace

std::string clean_html(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '&') {
      size_t end = 0;
      if (entity(text, at, out, end)) {
        at = end;
        continue;
      }
    }
    const bool tag =
        c == '<' && at + 1 < text.size() &&
        (is_letter(text[at + 1]) || text[at + 1] == '/' || text[at + 1] == '!' || text[at + 1] == '?');
    if (!tag) {
      out += c, ++at;
      continue;
    }
    if (text.substr(at).starts_with("<!--")) {
      at = std::min(text.find("-->", at + 4), text.size() - 3) + 3;
      continue;
    }
    bool skipped = false;
    for (const char* name : {"script", "style", "noscript", "head", "svg"})
      if (starts_with_at(text, at + 1, name) &&
          !is_letter(at + 1 + std::string_view(name).size() < text.size()
                         ? text[at + 1 + std::string_view(name).size()]
                         : ' ')) {
        at = find_lower(text, at + 1, std::string("</") + name);
        at = std::min(text.find('>', at), text.size() - 1) + 1;
        skipped = true;
        break;
      }
    if (skipped) continue;
    size_t from = at + 1 + (text[at + 1] == '/'), end = from;
    while (end < text.size() && (is_letter(text[end]) || (text[end] >= '1' && text[end] <= '6'))) ++end;
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
      const char mark = rest[0];
      size_t end = std::min(text.find('\n', at), text.size());
      while (at < end && text[at] == mark) ++at;
      while (at < end && text[at] == ' ') ++at;
      if (mark == '=') {
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

std::string clean_latex(std::string_view text) {
  static const std::unordered_set<std::string> kSkipped = {
      "equation",    "align",           "figure",    "table",  "tabular",
      "tikzpicture", "thebibliography", "equation*", "align*", "figure*",
      "table*",      "lstlisting",      "verbatim",  "gather", "eqnarray"};
  static const std::unordered_set<std::string> kDropped = {"cite",         "citep",
                                                           "citet",        "ref",
                                                           "label",        "includegraphics",
                                                           "usepackage",   "documentclass",
                                                           "bibliography", "bibliographystyle",
                                                           "input",        "vspace",
                                                           "hspace",       "newcommand",
                                                           "pageref",      "eqref",
                                                           "url"};
  if (const size_t body = text.find("\\begin{document}"); body != text.npos) text.remove_prefix(body + 16);
  if (const size_t end = text.find("\\end{document}"); end != text.npos) text = text.substr(0, end);
  std::string out;
  bool open_display = false, open_inline = false;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '%' && (at == 0 || text[at - 1] != '\\')) {
      at = std::min(text.find('\n', at), text.size());
    } else if (c == '$') {
      const bool display = text.substr(at).starts_with("$$");
      const size_t end = text.find(display ? "$$" : "$", at + (display ? 2 : 1));
      at = end == text.npos ? at + 1 : end + (display ? 2 : 1);
      out += ' ';
    } else if (c == '\\' && at + 1 < text.size() && !is_letter(text[at + 1])) {
      const char next = text[at + 1];
      if (next == '[' || next == '(') {
        // If one formula is not closed, no later one is: search only once.
        bool& open = next == '[' ? open_display : open_inline;
        const size_t end = open ? text.npos : text.find(next == '[' ? "\\]" : "\\)", at);
        open |= end == text.npos;
        at = end == text.npos ? at + 2 : end + 2;
        out += ' ';
      } else {
        if (next == '\\')
          out += '\n';
        else if (next == '%' || next == '&' || next == '$' || next == '#' || next == '_')
          out += next;
        at += 2;
      }
    } else if (c == '\\') {
      size_t end = at + 1;
      while (end < text.size() && is_letter(text[end])) ++end;
      const std::string name(text.substr(at + 1, end - at - 1));
      if (end < text.size() && text[end] == '*') ++end;
      if ((name == "begin" || name == "end") && end < text.size() && text[end] == '{') {
        const size_t close = std::min(text.find('}', end), text.size());
        const std::string inside(text.substr(end + 1, close - end - 1));
        at = std::min(close + 1, text.size());
        if (name == "begin" && kSkipped.contains(inside)) {
          const size_t over = text.find("\\end{" + inside + "}", at);
          at = over == text.npos ? text.size() : over + inside.size() + 6;
        }
        out += '\n';
        continue;
      }
      while (end < text.size() && text[end] == '[')
        end = std::min(std::min(text.find(']', end), text.size()) + 1, text.size());
      if (kDropped.contains(name))
        while (end < text.size() && text[end] == '{') end = balanced(text, end, "{", "}");
      at = end;
    } else if (c == '{' || c == '}') {
      ++at;
    } else {
      out += c == '~' ? ' ' : c;
      ++at;
    }
  }
  return out;
}

std::string clean_licence(std::string_view text) {
  size_t at = 0;
  if (text.starts_with("#!")) at = std::min(text.find('\n'), text.size() - 1) + 1;
  const size_t begin = text.find_first_not_of(" \t\r\n", at);
  if (begin == text.npos) return std::string(text);
  size_t end = begin;
  const std::string_view rest = text.substr(begin);
  if (rest.starts_with("/*")) {
    const size_t close = text.find("*/", begin);
    if (close == text.npos) return std::string(text);
    end = close + 2;
  } else {
    for (const std::string_view mark : {"//", "#", "--", ";", "%"})
      if (rest.starts_with(mark)) {
        while (end < text.size()) {
          const size_t line = text.find_first_not_of(" \t\r\n", end);
          if (line == text.npos || !text.substr(line).starts_with(mark)) break;
          end = std::min(text.find('\n', line), text.size() - 1) + 1;
        }
        break;
      }
  }
  if (end == begin) return std::string(text);
  const std::string head = lower_ascii(text.substr(begin, end - begin));
  for (const char* word : {"copyright", "license", "licence", "spdx-", "all rights reserved"})
    if (head.find(word) != head.npos)
      return std::string(text.substr(0, at)) +
             std::string(text.substr(std::min(text.size(), text.find_first_not_of("\r\n", end))));
  return std::string(text);
}

std::string clean_boilerplate(std::string_view text) {
  static constexpr const char* kPhrases[] = {
      "cookie policy",        "accept cookies",    "we use cookies",    "uses cookies",
      "privacy policy",       "terms of use",      "terms of service",  "terms and conditions",
      "all rights reserved",  "sign up for",       "subscribe to our",  "click here to",
      "share this",           "share on facebook", "follow us on",      "skip to content",
      "skip to main content", "back to top",       "enable javascript", "log in to",
      "powered by wordpress", "leave a reply",     "read more \u00BB",  "add to cart"};
  std::string out;
  std::unordered_set<uint64_t> seen;
  for (const std::string_view line : lines_of(text)) {
    const std::string_view body = trimmed_line(line);
    if (!body.empty()) {
      bool drop = body.size() >= 20 && !seen.insert(hash_bytes(body)).second;
      if (body.size() < 200) {
        const std::string small = lower_ascii(body);
        for (const char* phrase : kPhrases) drop |= small.find(phrase) != small.npos;
        // "Home | About | Contact"
        drop |= std::count(body.begin(), body.end(), '|') >= 2 && body.size() < 120;
      }
      if (drop) continue;
    }
    out += line;
    out += '\n';
  }
  if (!out.empty()) out.pop_back();
  return out;
}

std::string clean_blanks(std::string_view text) {
  std::string out;
  int empty = 0;
  for (const std::string_view line : lines_of(text)) {
    const size_t last = line.find_last_not_of(" \t\r");
    if (last == line.npos) {
      ++empty;
      continue;
    }
    if (!out.empty()) out += empty > 0 ? "\n\n" : "\n";
    empty = 0;
    for (const char c : line.substr(0, last + 1))
      if (static_cast<unsigned char>(c) >= 0x20 ? c != 0x7F : c == '\t') out += c;
  }
  return out;
}

const std::vector<Cleaner>& cleaners() {
  static const std::vector<Cleaner> kCleaners = {
      {"html", clean_html, "tags, scripts, entities"},
      {"wiki", clean_wiki, "wiki markup"},
      {"latex", clean_latex, "LaTeX commands and formulas"},
      {"licence", clean_licence, "licence headers of source files"},
      {"boilerplate", clean_boilerplate, "lines of navigation and repeated lines"},
      {"blanks", clean_blanks, "superfluous blanks and empty lines"},
  };
  return kCleaners;
}

}  // namespace makar

#include "retrieval/load/html.h"

#include <algorithm>
#include <charconv>

#include "base/lower_ascii.h"
#include "base/utf8.h"

namespace makar {
namespace {

bool is_space_byte(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f'; }
bool is_letter(char c) { return lower_ascii(c) >= 'a' && lower_ascii(c) <= 'z'; }

struct NamedReference {
  std::string_view name;
  char32_t code;
};
constexpr NamedReference kNamedReferences[] = {
    {"amp", '&'},      {"lt", '<'},       {"gt", '>'},        {"quot", '"'},     {"apos", '\''},
    {"nbsp", ' '},     {"copy", 0xA9},    {"reg", 0xAE},      {"deg", 0xB0},     {"plusmn", 0xB1},
    {"middot", 0xB7},  {"frac12", 0xBD},  {"times", 0xD7},    {"szlig", 0xDF},   {"agrave", 0xE0},
    {"aacute", 0xE1},  {"acirc", 0xE2},   {"atilde", 0xE3},   {"auml", 0xE4},    {"aring", 0xE5},
    {"aelig", 0xE6},   {"ccedil", 0xE7},  {"egrave", 0xE8},   {"eacute", 0xE9},  {"ecirc", 0xEA},
    {"euml", 0xEB},    {"igrave", 0xEC},  {"iacute", 0xED},   {"icirc", 0xEE},   {"iuml", 0xEF},
    {"ntilde", 0xF1},  {"ograve", 0xF2},  {"oacute", 0xF3},   {"ocirc", 0xF4},   {"otilde", 0xF5},
    {"ouml", 0xF6},    {"oslash", 0xF8},  {"ugrave", 0xF9},   {"uacute", 0xFA},  {"ucirc", 0xFB},
    {"uuml", 0xFC},    {"Auml", 0xC4},    {"Ouml", 0xD6},     {"Uuml", 0xDC},    {"Eacute", 0xC9},
    {"ndash", 0x2013}, {"mdash", 0x2014}, {"lsquo", 0x2018},  {"rsquo", 0x2019}, {"ldquo", 0x201C},
    {"rdquo", 0x201D}, {"bull", 0x2022},  {"hellip", 0x2026}, {"euro", 0x20AC},  {"trade", 0x2122},
    {"larr", 0x2190},  {"rarr", 0x2192},  {"minus", 0x2212},  {"laquo", 0xAB},   {"raquo", 0xBB},
    {"pound", 0xA3},   {"sect", 0xA7},    {"para", 0xB6},     {"yen", 0xA5},     {"cent", 0xA2}};

// The character of the reference at `at` (the position of '&') and its length, or {0, 0}.
std::pair<char32_t, size_t> reference(std::string_view text, size_t at) {
  size_t end = text.substr(at, 13).find(';');
  if (end == std::string_view::npos) return {0, 0};
  end += at;
  std::string_view body = text.substr(at + 1, end - at - 1);
  if (body.empty()) return {0, 0};
  if (body[0] == '#') {
    const bool hex = body.size() > 1 && lower_ascii(body[1]) == 'x';
    body.remove_prefix(hex ? 2 : 1);
    uint32_t code = 0;
    const auto [stop, status] = std::from_chars(body.data(), body.data() + body.size(), code, hex ? 16 : 10);
    if (status != std::errc() || stop != body.data() + body.size()) return {0, 0};
    if (code == 0 || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) code = kReplacement;
    return {code == 0xA0 ? ' ' : code, end + 1 - at};
  }
  for (const NamedReference& named : kNamedReferences)
    if (named.name == body) return {named.code, end + 1 - at};
  return {0, 0};
}

constexpr std::string_view kBlocks[] = {
    "address", "article", "aside", "blockquote", "br",         "caption", "dd",     "details",
    "div",     "dl",      "dt",    "fieldset",   "figcaption", "figure",  "footer", "form",
    "h1",      "h2",      "h3",    "h4",         "h5",         "h6",      "header", "hr",
    "legend",  "li",      "main",  "nav",        "ol",         "option",  "p",      "pre",
    "section", "summary", "table", "td",         "th",         "tr",      "ul"};
constexpr std::string_view kParagraphs[] = {"article", "blockquote", "div",     "h1",    "h2",
                                            "h3",      "h4",         "h5",      "h6",    "ol",
                                            "p",       "pre",        "section", "table", "ul"};
constexpr std::string_view kDropped[] = {"script", "style", "noscript", "template", "svg", "iframe"};

template <size_t N>
bool one_of(std::string_view word, const std::string_view (&list)[N]) {
  return std::find(std::begin(list), std::end(list), word) != std::end(list);
}

class HtmlReader {
 public:
  explicit HtmlReader(std::string_view html) : html_(html) {}

  HtmlText read() {
    while (at_ < html_.size()) {
      const char c = html_[at_];
      if (c == '<' && tag()) continue;
      if (c == '&') {
        if (const auto [code, size] = reference(html_, at_); size > 0) {
          append(code);
          at_ += size;
          continue;
        }
      }
      const CodePoint point = decode_utf8(html_, at_);
      append(point.code);
      at_ += point.size;
    }
    while (!out_.text.empty() && is_space_byte(out_.text.back())) out_.text.pop_back();
    while (!out_.title.empty() && is_space_byte(out_.title.back())) out_.title.pop_back();
    return std::move(out_);
  }

 private:
  void append(char32_t code) {
    std::string& to = in_title_ ? out_.title : out_.text;
    const bool blank = code < 0x80 && is_space_byte(static_cast<char>(code));
    if (blank && !(preformatted_ && !in_title_)) {
      if (!to.empty() && !is_space_byte(to.back())) to += ' ';
      return;
    }
    append_utf8(to, code);
  }
  // Ends the line, and the paragraph if `paragraph` is true.
  void break_line(bool paragraph) {
    std::string& to = out_.text;
    while (!to.empty() && to.back() == ' ') to.pop_back();
    if (to.empty()) return;
    const size_t breaks = to.ends_with("\n\n") ? 2 : to.ends_with('\n') ? 1 : 0;
    for (size_t i = breaks; i < (paragraph ? 2u : 1u); ++i) to += '\n';
  }

  // Reads the tag at `at_`. False: the '<' is text.
  bool tag() {
    const std::string_view rest = html_.substr(at_);
    if (rest.starts_with("<!--")) {
      const size_t end = html_.find("-->", at_ + 4);
      at_ = end == std::string_view::npos ? html_.size() : end + 3;
      return true;
    }
    if (rest.size() < 2) return false;
    const bool closes = rest[1] == '/';
    const char first = rest.size() > (closes ? 2u : 1u) ? rest[closes ? 2 : 1] : '\0';
    if (!is_letter(first)) {
      if (rest[1] != '!' && rest[1] != '?' && !closes) return false;
      at_ = std::min(html_.find('>', at_), html_.size() - 1) + 1;
      return true;
    }
    size_t at = at_ + (closes ? 2 : 1);
    std::string name;
    for (; at < html_.size() && (is_letter(html_[at]) || (html_[at] >= '0' && html_[at] <= '9')); ++at)
      if (name.size() < 16) name += lower_ascii(html_[at]);
    // A '>' inside a quoted attribute does not end the tag.
    char quote = 0;
    for (; at < html_.size() && (quote || html_[at] != '>'); ++at) {
      if (quote ? html_[at] == quote : (html_[at] == '"' || html_[at] == '\''))
        quote = quote ? '\0' : html_[at];
    }
    at_ = std::min(at + 1, html_.size());
    apply(name, closes);
    return true;
  }

  void apply(const std::string& name, bool closes) {
    if (!closes && one_of(name, kDropped)) return skip(name);
    if (name == "title") in_title_ = !closes && out_.title.empty();
    if (name == "pre") preformatted_ = !closes;
    if (one_of(name, kBlocks)) break_line(one_of(name, kParagraphs));
    if (closes) return;
    if (name.size() == 2 && name[0] == 'h' && name[1] >= '1' && name[1] <= '6')
      out_.text += std::string(static_cast<size_t>(name[1] - '0'), '#') + " ";
    if (name == "li") out_.text += "- ";
  }

  // Skips past the closing tag of an element whose content is not text.
  void skip(const std::string& name) {
    for (size_t at = at_; (at = html_.find("</", at)) != std::string_view::npos; at += 2) {
      if (html_.size() - at - 2 < name.size()) break;
      bool same = true;
      for (size_t i = 0; i < name.size() && same; ++i) same = lower_ascii(html_[at + 2 + i]) == name[i];
      if (!same) continue;
      at_ = std::min(html_.find('>', at), html_.size() - 1) + 1;
      return;
    }
    at_ = html_.size();
  }

  std::string_view html_;
  size_t at_ = 0;
  bool in_title_ = false, preformatted_ = false;
  HtmlText out_;
};

}  // namespace

HtmlText read_html(std::string_view html) { return HtmlReader(html).read(); }

}  // namespace makar

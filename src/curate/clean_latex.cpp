// The cleaner of LaTeX.
#include <algorithm>
#include <unordered_set>

#include "curate/clean.h"
#include "curate/clean_text.h"

namespace makar {
namespace {

class LatexCleaner {
 public:
  explicit LatexCleaner(std::string_view text) : text_(text) {}

  std::string run() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '%' && (at_ == 0 || text_[at_ - 1] != '\\'))
        at_ = std::min(text_.find('\n', at_), text_.size());
      else if (c == '$')
        formula();
      else if (c == '\\' && at_ + 1 < text_.size() && !is_ascii_letter(text_[at_ + 1]))
        symbol(text_[at_ + 1]);
      else if (c == '\\')
        command();
      else if (c == '{' || c == '}')
        ++at_;
      else
        out_ += c == '~' ? ' ' : c, ++at_;
    }
    return std::move(out_);
  }

 private:
  // $...$ or $$...$$
  void formula() {
    const bool display = text_.substr(at_).starts_with("$$");
    const size_t end = text_.find(display ? "$$" : "$", at_ + (display ? 2 : 1));
    at_ = end == text_.npos ? at_ + 1 : end + (display ? 2 : 1);
    out_ += ' ';
  }

  // A backslash and a character that is not a letter: \[...\], \(...\), \\, an escaped character.
  void symbol(char next) {
    if (next == '[' || next == '(') {
      // If one formula is not closed, no later one is: search only once.
      bool& open = next == '[' ? open_display_ : open_inline_;
      const size_t end = open ? text_.npos : text_.find(next == '[' ? "\\]" : "\\)", at_);
      open |= end == text_.npos;
      at_ = end == text_.npos ? at_ + 2 : end + 2;
      out_ += ' ';
      return;
    }
    if (next == '\\')
      out_ += '\n';
    else if (next == '%' || next == '&' || next == '$' || next == '#' || next == '_')
      out_ += next;
    at_ += 2;
  }

  // \name*[...]{...}
  void command() {
    static const std::unordered_set<std::string> kDropped = {"cite",         "citep",
                                                             "citet",        "ref",
                                                             "label",        "includegraphics",
                                                             "usepackage",   "documentclass",
                                                             "bibliography", "bibliographystyle",
                                                             "input",        "vspace",
                                                             "hspace",       "newcommand",
                                                             "pageref",      "eqref",
                                                             "url"};
    size_t end = at_ + 1;
    while (end < text_.size() && is_ascii_letter(text_[end])) ++end;
    const std::string name(text_.substr(at_ + 1, end - at_ - 1));
    if (end < text_.size() && text_[end] == '*') ++end;
    if ((name == "begin" || name == "end") && end < text_.size() && text_[end] == '{')
      return environment(name == "begin", end);
    while (end < text_.size() && text_[end] == '[')
      end = std::min(std::min(text_.find(']', end), text_.size()) + 1, text_.size());
    if (kDropped.contains(name))
      while (end < text_.size() && text_[end] == '{') end = balanced(text_, end, "{", "}");
    at_ = end;
  }

  // \begin{name} or \end{name}; `brace` is the position of the brace. Skips environments that are not text.
  void environment(bool begins, size_t brace) {
    static const std::unordered_set<std::string> kSkipped = {
        "equation",    "align",           "figure",    "table",  "tabular",
        "tikzpicture", "thebibliography", "equation*", "align*", "figure*",
        "table*",      "lstlisting",      "verbatim",  "gather", "eqnarray"};
    const size_t close = std::min(text_.find('}', brace), text_.size());
    const std::string name(text_.substr(brace + 1, close - brace - 1));
    at_ = std::min(close + 1, text_.size());
    if (begins && kSkipped.contains(name)) {
      const size_t end = text_.find("\\end{" + name + "}", at_);
      at_ = end == text_.npos ? text_.size() : end + name.size() + 6;
    }
    out_ += '\n';
  }

  std::string_view text_;
  size_t at_ = 0;
  std::string out_;
  bool open_display_ = false, open_inline_ = false;
};

}  // namespace

std::string clean_latex(std::string_view text) {
  if (const size_t body = text.find("\\begin{document}"); body != text.npos) text.remove_prefix(body + 16);
  if (const size_t end = text.find("\\end{document}"); end != text.npos) text = text.substr(0, end);
  return LatexCleaner(text).run();
}

}  // namespace makar

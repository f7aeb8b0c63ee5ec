// Translates patterns from Oniguruma's Ruby syntax, as in tokenizer files, to PCRE2's.
#include <algorithm>
#include <array>

#include "base/lower_ascii.h"
#include "base/quote.h"
#include "text/newer_code_points.h"
#include "text/regex.h"

namespace makar {
namespace {

constexpr int kMaxDepth = 32;  // nesting of classes

// Class members whose meaning differs: PCRE2 counts U+180E as white space, and its \w has no marks.
constexpr const char* kSpace = "\\x09-\\x0d\\x20\\x85\\p{Z}";
constexpr const char* kNotSpace =
    "\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}"
    "\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{10ffff}";
constexpr const char* kWord = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
// Outside of classes \w also includes these numerals.
constexpr const char* kWordOutsideClass = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\xb2\\xb3\\xb9\\xbc-\\xbe";
constexpr const char* kHex = "0-9a-fA-F";

struct NamedSet {
  const char *name, *members;
};
// Property and POSIX names, compared without case, blanks, '-' and '_'.
constexpr NamedSet kNames[] = {
    {"alpha", "\\p{Alphabetic}"},
    {"alnum", "\\p{Alphabetic}\\p{Nd}"},
    {"upper", "\\p{Uppercase}"},
    {"lower", "\\p{Lowercase}"},
    {"digit", "\\p{Nd}"},
    {"space", kSpace},
    {"whitespace", kSpace},
    {"blank", "\\p{Zs}\\x09"},
    {"cntrl", "\\p{Cc}"},
    {"word", kWord},
    {"xdigit", kHex},
    {"punct", "\\p{P}"},
    {"letter", "\\p{L}"},
    {"uppercaseletter", "\\p{Lu}"},
    {"lowercaseletter", "\\p{Ll}"},
    {"titlecaseletter", "\\p{Lt}"},
    {"modifierletter", "\\p{Lm}"},
    {"otherletter", "\\p{Lo}"},
    {"mark", "\\p{M}"},
    {"nonspacingmark", "\\p{Mn}"},
    {"spacingmark", "\\p{Mc}"},
    {"enclosingmark", "\\p{Me}"},
    {"number", "\\p{N}"},
    {"decimalnumber", "\\p{Nd}"},
    {"letternumber", "\\p{Nl}"},
    {"othernumber", "\\p{No}"},
    {"punctuation", "\\p{P}"},
    {"connectorpunctuation", "\\p{Pc}"},
    {"dashpunctuation", "\\p{Pd}"},
    {"openpunctuation", "\\p{Ps}"},
    {"closepunctuation", "\\p{Pe}"},
    {"initialpunctuation", "\\p{Pi}"},
    {"finalpunctuation", "\\p{Pf}"},
    {"otherpunctuation", "\\p{Po}"},
    {"symbol", "\\p{S}"},
    {"mathsymbol", "\\p{Sm}"},
    {"currencysymbol", "\\p{Sc}"},
    {"modifiersymbol", "\\p{Sk}"},
    {"othersymbol", "\\p{So}"},
    {"separator", "\\p{Z}"},
    {"spaceseparator", "\\p{Zs}"},
    {"lineseparator", "\\p{Zl}"},
    {"paragraphseparator", "\\p{Zp}"},
    {"other", "\\p{C}"},
    {"control", "\\p{Cc}"},
    {"format", "\\p{Cf}"},
    {"unassigned", "\\p{Cn}"},
    {"privateuse", "\\p{Co}"},
    {"surrogate", "\\p{Cs}"},
};

// Unicode properties that are neither a category nor a script.
bool is_binary_property(std::string_view name) {
  constexpr const char* kBinary[] = {
      "any",       "assigned",  "ascii", "emoji",           "extendedpictographic",
      "uppercase", "lowercase", "math",  "alphabetic",      "ideographic",
      "dash",      "hexdigit",  "cased", "unifiedideograph"};
  return std::any_of(std::begin(kBinary), std::end(kBinary), [&](const char* b) { return name == b; }) ||
         name.starts_with("emoji") || name.starts_with("id") || name.starts_with("xid");
}

// A set of characters: members of a PCRE2 class, and one-character expressions that cannot be class members.
struct CharSet {
  std::string members;
  std::vector<std::string> others;

  void add(std::string_view text) { members += text; }
  // Adds a set: a '-' next to it is not a range.
  void add_set(const CharSet& other) {
    if (members.ends_with('-') && !members.ends_with("\\-")) members.insert(members.size() - 1, "\\");
    if (other.members.starts_with('-')) add("\\");
    add(other.members);
    if (other.members.size() > 1 && other.members.ends_with('-') && !other.members.ends_with("\\-"))
      members.insert(members.size() - 1, "\\");
    others.insert(others.end(), other.others.begin(), other.others.end());
  }
  std::string expression() const {
    const bool property = members.starts_with("\\p{") && members.find('}') == members.size() - 1;
    if (others.empty()) return property ? members : "[" + members + "]";
    if (members.empty() && others.size() == 1) return others[0];
    std::string out = "(?:";
    if (!members.empty()) out += "[" + members + "]|";
    for (size_t i = 0; i < others.size(); ++i) out += (i ? "|" : "") + others[i];
    return out + ")";
  }
};

std::string complement(const CharSet& set) {
  return set.others.empty() ? "[^" + set.members + "]" : "(?:(?!" + set.expression() + ")(?s:.))";
}

class Translator {
 public:
  explicit Translator(std::string_view pattern) : in_(pattern) {}

  Result<std::string> run() {
    while (at_ < in_.size()) {
      const char c = in_[at_];
      if (c == '\\' && at_ + 1 < in_.size()) {
        MAKAR_TRY(const CharSet set, escape(kWordOutsideClass));
        out_ += raw_ ? set.members : set.expression();
      } else if (c == '[') {
        MAKAR_TRY(const CharSet set, char_class(0));
        out_ += set.expression();
      } else if (in_.substr(at_).starts_with("(?")) {
        translate_options();
      } else if (c == '}' && in_.substr(at_ + 1).starts_with("+") && drop_upper_bound()) {
        at_ += 2;
      } else {
        out_ += c;
        ++at_;
      }
    }
    return std::move(out_);
  }

 private:
  // (?m) lets '.' match line breaks in Ruby.
  void translate_options() {
    size_t end = at_ + 2;
    while (end < in_.size() && (in_[end] == '-' || (in_[end] >= 'a' && in_[end] <= 'z'))) ++end;
    const bool found = end < in_.size() && (in_[end] == ':' || in_[end] == ')');
    std::string text(in_.substr(at_, found ? end - at_ : 2));
    std::replace(text.begin(), text.end(), 'm', 's');
    out_ += text;
    at_ += text.size();
  }

  // x{n,m}+ repeats x{n,m} in Ruby, but PCRE2 reads a possessive quantifier: write x{n,}.
  bool drop_upper_bound() {
    const size_t open = out_.rfind('{');
    if (open == std::string::npos || out_.find_first_not_of("0123456789,", open + 1) != std::string::npos)
      return false;  // the end of a property
    out_.resize(std::min(out_.find(',', open), out_.size()));
    out_ += ",}";
    return true;
  }

  // The escape at position at_. raw_: it is not a character class, and its text is copied to the pattern.
  Result<CharSet> escape(const char* word) {
    raw_ = false;
    const char kind = in_[at_ + 1];
    at_ += 2;
    switch (kind) {
      case 's':
        return CharSet{kSpace, {}};
      case 'S':
        return CharSet{kNotSpace, {}};
      case 'w':
        return CharSet{with_newer_code_points(word), {}};
      case 'W':
        return CharSet{"", {complement({with_newer_code_points(word), {}})}};
      case 'h':
        return CharSet{kHex, {}};
      case 'H':
        return CharSet{"", {complement({kHex, {}})}};
      case 'p':
      case 'P':
        if (at_ < in_.size() && in_[at_] == '{') return property(kind == 'P');
        break;
      case 'u':
        if (at_ + 4 <= in_.size() &&
            in_.substr(at_, 4).find_first_not_of("0123456789abcdefABCDEF") == in_.npos) {
          raw_ = true;
          at_ += 4;
          return CharSet{"\\x{" + std::string(in_.substr(at_ - 4, 4)) + "}", {}};
        }
        break;
      case 'b':
      case 'B':
        raw_ = true;
        return CharSet{boundary(kind == 'B'), {}};
      default:
        break;
    }
    raw_ = true;
    std::string text = {'\\', kind};
    const size_t close = in_.find('}', at_);
    if (at_ < in_.size() && in_[at_] == '{' && close != in_.npos &&
        std::string_view("xokgN").find(kind) != std::string_view::npos) {
      text += in_.substr(at_, close + 1 - at_);
      at_ = close + 1;
    }
    return CharSet{std::move(text), {}};
  }

  static std::string boundary(bool negated) {
    const std::string word = "[" + with_newer_code_points(kWord) + "]";
    return negated ? "(?:(?<=" + word + ")(?=" + word + ")|(?<!" + word + ")(?!" + word + "))"
                   : "(?:(?<=" + word + ")(?!" + word + ")|(?<!" + word + ")(?=" + word + "))";
  }

  // {Name} or {^Name} at position at_.
  Result<CharSet> property(bool negated) {
    const size_t end = in_.find('}', at_);
    if (end == in_.npos) return error_at("pattern", "the property at byte {} is not closed by }}", at_);
    std::string_view name = in_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    if (name.starts_with('^')) name.remove_prefix(1), negated = !negated;
    return named_set(name, negated);
  }

  // [:punct:] includes symbols, \p{Punct} does not.
  static CharSet punctuation(bool negated) {
    const CharSet set{with_newer_code_points("\\p{P}\\p{S}"), {}};
    return negated ? CharSet{"", {complement(set)}} : set;
  }

  static CharSet named_set(std::string_view name, bool negated) {
    std::string plain;
    for (const char c : name)
      if (c != ' ' && c != '-' && c != '_') plain += lower_ascii(c);
    for (const NamedSet& known : kNames) {
      if (plain != known.name) continue;
      const CharSet set{with_newer_code_points(known.members), {}};
      return negated ? CharSet{"", {complement(set)}} : set;
    }
    if (plain == "graph" || plain == "print") {
      std::string excluded = "\\p{Cc}\\p{Cn}\\p{Cs}";
      excluded += plain == "graph" ? kSpace : "\\p{Zl}\\p{Zp}";
      const std::string& newer = newer_code_points();  // PCRE2 counts them as unassigned
      if (negated)
        return newer.empty() ? CharSet{excluded, {}} : CharSet{"", {"(?![" + newer + "])[" + excluded + "]"}};
      return CharSet{newer, {"[^" + excluded + "]"}};
    }
    // Only the script's own characters; PCRE2 would add those shared with other scripts.
    const bool script = plain.size() > 2 && !is_binary_property(plain) && plain != "l&" &&
                        plain.find_first_of(":=") == plain.npos;
    const std::string property = fmt::format("\\p{{{}{}}}", script ? "sc:" : "", name);
    CharSet set{with_newer_code_points(property), {}};
    if (!negated) return set;
    if (set.members != property) return {"", {complement(set)}};
    set.members[1] = 'P';
    return set;
  }

  // The class that opens at position at_.
  Result<CharSet> char_class(int depth) {
    const size_t open = at_++;
    if (depth > kMaxDepth)
      return error_of(Error::Kind::kLimit, "pattern", "classes are nested deeper than {} (byte {})",
                      kMaxDepth, open);
    const bool negated = next_is("^");
    std::vector<CharSet> parts(1);  // intersected: a && b
    if (next_is("]")) parts.back().add("\\]");
    while (at_ < in_.size() && in_[at_] != ']') MAKAR_RETURN_IF_ERROR(item(parts, depth));
    if (at_ >= in_.size()) return error_at("pattern", "the class at byte {} is not closed by ]", open);
    ++at_;
    for (const CharSet& part : parts)
      if (part.members.empty() && part.others.empty())
        return error_of(Error::Kind::kUnsupported, "pattern", "the class at byte {} has an empty part", open);
    CharSet set = std::move(parts.back());
    if (parts.size() > 1) {
      std::string intersection = "(?:";
      for (size_t i = 0; i + 1 < parts.size(); ++i) intersection += "(?=" + parts[i].expression() + ")";
      set = {"", {intersection + set.expression() + ")"}};
    }
    return negated ? CharSet{"", {complement(set)}} : set;
  }

  // Parses one item of a class into the last element of `parts`.
  Status item(std::vector<CharSet>& parts, int depth) {
    CharSet& current = parts.back();
    if (in_[at_] == '\\' && at_ + 1 < in_.size()) {
      if (in_[at_ + 1] == 'b' || in_[at_ + 1] == 'B')  // in a class: a backspace, and the letter B
        return current.add(in_[at_ + 1] == 'b' ? "\\x08" : "B"), at_ += 2, Done{};
      MAKAR_TRY(const CharSet set, escape(kWord));
      raw_ ? current.add(set.members) : current.add_set(set);
    } else if (in_.substr(at_).starts_with("[:") && in_.find(":]", at_) != in_.npos) {
      const size_t end = in_.find(":]", at_);
      std::string_view name = in_.substr(at_ + 2, end - at_ - 2);
      const bool negated = name.starts_with('^');
      if (negated) name.remove_prefix(1);
      at_ = end + 2;
      current.add_set(name == "punct" ? punctuation(negated) : named_set(name, negated));
    } else if (in_[at_] == '[') {
      MAKAR_TRY(const CharSet inner, char_class(depth + 1));
      current.add_set(inner);
    } else if (next_is("&&")) {
      parts.emplace_back();
    } else {
      // A '^' that comes first in the output must not negate the class.
      if (in_[at_] == '^') current.add("\\");
      current.add(in_.substr(at_++, 1));
    }
    return Done{};
  }

  bool next_is(std::string_view text) {
    if (!in_.substr(at_).starts_with(text)) return false;
    at_ += text.size();
    return true;
  }

  std::string_view in_;
  size_t at_ = 0;
  bool raw_ = false;
  std::string out_;
};

}  // namespace

Result<std::string> translate_pattern(const std::string& pattern) { return Translator(pattern).run(); }

}  // namespace makar

// All pre-tokenizers: one class each, and the table of kinds at the end.
#include "text/pre_tokenizer.h"

#include "text/byte_alphabet.h"
#include "text/component.h"
#include "text/regex.h"
#include "text/split.h"
#include "text/unicode8.h"
#include "text/unicode_scripts.h"

namespace makar {

const char* const kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

namespace {

using PreTokenizerResult = ComponentResult<PreTokenizer>;

// Splits every word by the matches that `find` reports in it.
template <class Find>
Status split_words(Words& words, Find find, SplitBehavior behavior, bool invert) {
  std::vector<Span> out, matches;
  out.reserve(words.ranges.size());
  for (const Span range : words.ranges) {
    const std::string_view part =
        std::string_view(words.text.text()).substr(range.begin, range.end - range.begin);
    matches.clear();
    MAKAR_RETURN_IF_ERROR(find(part, matches));
    split_by_matches(part, range.begin, matches, behavior, invert, out);
  }
  words.ranges = std::move(out);
  return Done{};
}

template <class Test>
Status split_at_characters(Words& words, Test test, SplitBehavior behavior) {
  return split_words(
      words,
      [&](std::string_view part, std::vector<Span>& matches) -> Status {
        match_characters(part, test, matches);
        return Done{};
      },
      behavior, false);
}

// Rewrites the words one by one into a new text; edit(AlignedText&) changes one word.
template <class Edit>
void rewrite_words(Words& words, Edit edit) {
  std::string text;
  std::vector<Span> spans, ranges;
  words.text.spans();
  for (const Span range : words.ranges) {
    AlignedText word = words.text.slice(range.begin, range.end);
    edit(word);
    const auto begin = static_cast<uint32_t>(text.size());
    text += word.text();
    spans.insert(spans.end(), word.spans().begin(), word.spans().end());
    ranges.push_back({begin, static_cast<uint32_t>(text.size())});
  }
  words.text.replace_with(std::move(text), std::move(spans));
  words.ranges = std::move(ranges);
}

class Split : public PreTokenizer {
 public:
  Split(Regex pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}
  Status apply(Words& words) const override {
    return split_words(
        words,
        [&](std::string_view part, std::vector<Span>& matches) { return pattern_.find_all(part, matches); },
        behavior_, invert_);
  }

 private:
  Regex pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

class ByteLevel : public PreTokenizer {
 public:
  ByteLevel(bool prefix_space, std::optional<Regex> pattern, bool raw)
      : prefix_space_(prefix_space), pattern_(std::move(pattern)), raw_(raw) {}
  Status apply(Words& words) const override {
    if (prefix_space_) {
      bool all_have_blanks = true;
      for (const Span range : words.ranges)
        all_have_blanks = all_have_blanks && words.text.text()[range.begin] == ' ';
      if (!all_have_blanks)
        rewrite_words(words, [](AlignedText& word) {
          if (!word.text().starts_with(' ')) word.prepend(" ");
        });
    }
    if (pattern_)
      MAKAR_RETURN_IF_ERROR(split_words(
          words,
          [&](std::string_view part, std::vector<Span>& matches) {
            return pattern_->find_all(part, matches);
          },
          SplitBehavior::kIsolated, false));
    if (!raw_) rewrite_words(words, [](AlignedText& word) { to_byte_alphabet(word); });
    return Done{};
  }

 private:
  bool prefix_space_;
  std::optional<Regex> pattern_;
  bool raw_;
};

class Metaspace : public PreTokenizer {
 public:
  enum class Prepend { kAlways, kFirst, kNever };
  Metaspace(std::string mark, Prepend scheme, bool split)
      : mark_(std::move(mark)), scheme_(scheme), split_(split) {}
  Status apply(Words& words) const override {
    rewrite_words(words, [&](AlignedText& word) {
      if (word.text().find(' ') != std::string::npos) mark_blanks(word);
      if (word.text().starts_with(mark_)) return;
      if (scheme_ == Prepend::kAlways || (scheme_ == Prepend::kFirst && word.original(0, 1).begin == 0))
        word.prepend(mark_);
    });
    if (!split_) return Done{};
    const char32_t mark = decode_utf8(mark_).code;
    return split_at_characters(
        words, [&](char32_t c) { return c == mark; }, SplitBehavior::kMergedWithNext);
  }

 private:
  void mark_blanks(AlignedText& word) const {
    const std::vector<Span>& old = word.spans();
    std::string text;
    std::vector<Span> spans;
    for (size_t i = 0; i < old.size(); ++i) {
      if (word.text()[i] == ' ') {
        text += mark_;
        spans.insert(spans.end(), mark_.size(), old[i]);
      } else {
        text += word.text()[i];
        spans.push_back(old[i]);
      }
    }
    word.replace_with(std::move(text), std::move(spans));
  }
  std::string mark_;
  Prepend scheme_;
  bool split_;
};

class Whitespace : public PreTokenizer {  // \w+|[^\w\s]+
 public:
  Status apply(Words& words) const override {
    return split_words(
        words,
        [](std::string_view part, std::vector<Span>& matches) -> Status {
          // 0: white space, between words; a run of characters of kind 1 or 2 is a word.
          const auto kind = [](char32_t c) { return is_word(c) ? 1 : is_space(c) ? 0 : 2; };
          int last = 0;
          for (size_t at = 0; at < part.size();) {
            const auto from = static_cast<uint32_t>(at);
            const int k = kind(next_code(part, at));
            if (k != 0 && k == last)
              matches.back().end = static_cast<uint32_t>(at);
            else if (k != 0)
              matches.push_back({from, static_cast<uint32_t>(at)});
            last = k;
          }
          return Done{};
        },
        SplitBehavior::kRemoved, true);
  }
};

class WhitespaceSplit : public PreTokenizer {
 public:
  Status apply(Words& words) const override {
    return split_at_characters(words, is_space, SplitBehavior::kRemoved);
  }
};

bool is_punctuation(char32_t c) {
  return c < 0x80 ? is_ascii_punctuation(c) : in(c, kPunctuation) && !is_newer_than_unicode8(c);
}

class Bert : public PreTokenizer {
 public:
  Status apply(Words& words) const override {
    MAKAR_RETURN_IF_ERROR(split_at_characters(words, is_space, SplitBehavior::kRemoved));
    return split_at_characters(words, is_punctuation, SplitBehavior::kIsolated);
  }
};

class Characters : public PreTokenizer {  // Punctuation, Digits, CharDelimiterSplit
 public:
  Characters(std::function<bool(char32_t)> test, SplitBehavior behavior)
      : test_(std::move(test)), behavior_(behavior) {}
  Status apply(Words& words) const override { return split_at_characters(words, test_, behavior_); }

 private:
  std::function<bool(char32_t)> test_;
  SplitBehavior behavior_;
};

class FixedLength : public PreTokenizer {
 public:
  explicit FixedLength(uint64_t length) : length_(length) {}
  Status apply(Words& words) const override {
    return split_words(
        words,
        [&](std::string_view part, std::vector<Span>& matches) -> Status {
          for (size_t at = 0; at < part.size();) {
            const auto from = static_cast<uint32_t>(at);
            for (uint64_t i = 0; i < length_ && at < part.size(); ++i) next_code(part, at);
            matches.push_back({from, static_cast<uint32_t>(at)});
          }
          return Done{};
        },
        SplitBehavior::kIsolated, false);
  }

 private:
  uint64_t length_;
};

class Sequence : public PreTokenizer {
 public:
  explicit Sequence(std::vector<std::unique_ptr<const PreTokenizer>> parts) : parts_(std::move(parts)) {}
  Status apply(Words& words) const override {
    for (const auto& part : parts_) MAKAR_RETURN_IF_ERROR(part->apply(words));
    return Done{};
  }

 private:
  std::vector<std::unique_ptr<const PreTokenizer>> parts_;
};

template <class T, class... Args>
PreTokenizerResult make(Args&&... args) {
  return PreTokenizerResult(std::unique_ptr<const PreTokenizer>(new T(std::forward<Args>(args)...)));
}

Result<SplitBehavior> behavior_field(const Json& json, std::optional<std::string> fallback = std::nullopt) {
  MAKAR_TRY(const std::string name, string_field(json, "behavior", fallback));
  const std::vector<std::string> names = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                          "Contiguous"};
  for (size_t i = 0; i < names.size(); ++i)
    if (name == names[i]) return static_cast<SplitBehavior>(i);
  return error_of(Error::Kind::kUnsupported, "behavior", "unknown behavior {}{}", quote(name),
                  did_you_mean(name.substr(0, 80), names));
}

Result<std::string> character_field(const Json& json, const char* key) {
  MAKAR_TRY(std::string text, string_field(json, key));
  if (text.empty() || decode_utf8(text).size != text.size())
    return error_at(key, "expected one character, found {}", quote(text));
  return text;
}

PreTokenizerResult make_split(const Json& json, bool) {
  MAKAR_TRY(Regex pattern, pattern_field(json));
  MAKAR_TRY(const SplitBehavior behavior, behavior_field(json));
  MAKAR_TRY(const bool invert, bool_field(json, "invert", false));
  return make<Split>(std::move(pattern), behavior, invert);
}

PreTokenizerResult make_byte_level(const Json& json, bool raw) {
  MAKAR_TRY(const bool prefix, bool_field(json, "add_prefix_space", true));
  MAKAR_TRY(const bool use_regex, bool_field(json, "use_regex", true));
  std::optional<Regex> pattern;
  if (use_regex) {
    MAKAR_TRY(pattern, Regex::compile(kGpt2Pattern));
  }
  return make<ByteLevel>(prefix, std::move(pattern), raw);
}

PreTokenizerResult make_metaspace(const Json& json, bool) {
  MAKAR_TRY(const std::string mark, character_field(json, "replacement"));
  MAKAR_TRY(const bool prefix, bool_field(json, "add_prefix_space", true));
  MAKAR_TRY(const std::string scheme, string_field(json, "prepend_scheme", prefix ? "always" : "never"));
  MAKAR_TRY(const bool split, bool_field(json, "split", true));
  if (scheme == "always") return make<Metaspace>(mark, Metaspace::Prepend::kAlways, split);
  if (scheme == "first") return make<Metaspace>(mark, Metaspace::Prepend::kFirst, split);
  if (scheme == "never") return make<Metaspace>(mark, Metaspace::Prepend::kNever, split);
  return error_of(Error::Kind::kUnsupported, "prepend_scheme", "expected always, first or never, found {}",
                  quote(scheme));
}

PreTokenizerResult make_punctuation(const Json& json, bool) {
  MAKAR_TRY(const SplitBehavior behavior, behavior_field(json, "Isolated"));
  return make<Characters>(is_punctuation, behavior);
}

PreTokenizerResult make_digits(const Json& json, bool) {
  MAKAR_TRY(const bool single, bool_field(json, "individual_digits", false));
  return make<Characters>([](char32_t c) { return in(c, kNumber); },
                          single ? SplitBehavior::kIsolated : SplitBehavior::kContiguous);
}

PreTokenizerResult make_delimiter(const Json& json, bool) {
  MAKAR_TRY(const std::string delimiter, character_field(json, "delimiter"));
  return make<Characters>([code = decode_utf8(delimiter).code](char32_t c) { return c == code; },
                          SplitBehavior::kRemoved);
}

PreTokenizerResult make_scripts(const Json&, bool) {
  MAKAR_TRY(Regex pattern, Regex::compile(unicode_scripts_pattern()));
  return make<Split>(std::move(pattern), SplitBehavior::kRemoved, true);
}

PreTokenizerResult make_fixed(const Json& json, bool) {
  MAKAR_TRY(const uint64_t length, count_field(json, "length", 5));
  if (length == 0) return error_at("length", "must be at least 1");
  return make<FixedLength>(length);
}

PreTokenizerResult make_sequence(const Json& json, bool raw) {
  MAKAR_TRY(auto parts, make_components<PreTokenizer>(json, "pretokenizers", raw));
  return make<Sequence>(std::move(parts));
}

const ComponentKind<PreTokenizer, bool> kKinds[] = {
    {"ByteLevel", make_byte_level},
    {"Split", make_split},
    {"Metaspace", make_metaspace},
    {"Whitespace", [](const Json&, bool) { return make<Whitespace>(); }},
    {"WhitespaceSplit", [](const Json&, bool) { return make<WhitespaceSplit>(); }},
    {"BertPreTokenizer", [](const Json&, bool) { return make<Bert>(); }},
    {"Punctuation", make_punctuation},
    {"Digits", make_digits},
    {"CharDelimiterSplit", make_delimiter},
    {"Delimiter", make_delimiter},
    {"UnicodeScripts", make_scripts},
    {"FixedLength", make_fixed},
    {"Sequence", make_sequence},
};

}  // namespace

PreTokenizerResult PreTokenizer::from_json(const Json& json, bool raw_bytes) {
  return make_component(json, "pre_tokenizer", kKinds, raw_bytes);
}

}  // namespace makar

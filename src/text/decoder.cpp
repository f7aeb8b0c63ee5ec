// All decoders: one class each, and the table of kinds at the end.
#include "text/decoder.h"

#include "base/replace.h"
#include "text/byte_alphabet.h"
#include "text/component.h"
#include "text/regex.h"
#include "text/unicode.h"

namespace makar {
namespace {

using DecoderResult = ComponentResult<Decoder>;
using Tokens = std::vector<std::string>;

// Removes the blanks that word-level tokenization of English leaves.
std::string clean_up(std::string text) {
  constexpr std::pair<const char*, const char*> kRules[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},    {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
  };
  for (const auto& [from, to] : kRules) text = replace_all(text, from, to);
  return text;
}

class ByteLevel : public Decoder {
 public:
  void apply(Tokens& tokens, bool raw) const override {
    std::string bytes;
    for (const std::string& token : tokens) bytes += letters_to_bytes(token).value_or(token);
    tokens = {raw ? std::move(bytes) : to_valid_utf8(bytes)};
  }
  bool is_byte_level() const override { return true; }
};

class WordPiece : public Decoder {
 public:
  WordPiece(std::string prefix, bool cleanup) : prefix_(std::move(prefix)), cleanup_(cleanup) {}
  void apply(Tokens& tokens, bool) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0)
        tokens[i] = tokens[i].starts_with(prefix_) ? tokens[i].substr(prefix_.size()) : " " + tokens[i];
      if (cleanup_) tokens[i] = clean_up(std::move(tokens[i]));
    }
  }

 private:
  std::string prefix_;
  bool cleanup_;
};

class Metaspace : public Decoder {
 public:
  Metaspace(std::string mark, bool prepends) : mark_(std::move(mark)), prepends_(prepends) {}
  void apply(Tokens& tokens, bool) const override {
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = replace_all(tokens[i], mark_, i == 0 && prepends_ ? "" : " ");
  }

 private:
  std::string mark_;
  bool prepends_;
};

class Bpe : public Decoder {
 public:
  explicit Bpe(std::string suffix) : suffix_(std::move(suffix)) {}
  void apply(Tokens& tokens, bool) const override {
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = replace_all(tokens[i], suffix_, i + 1 == tokens.size() ? "" : " ");
  }

 private:
  std::string suffix_;
};

class ByteFallback : public Decoder {
 public:
  void apply(Tokens& tokens, bool raw) const override {
    Tokens out;
    std::string bytes;
    const auto flush = [&] {
      if (bytes.empty()) return;
      if (raw || is_valid_utf8(bytes))
        out.push_back(bytes);
      else
        for (size_t i = 0; i < bytes.size(); ++i) out.push_back(utf8(kReplacement));
      bytes.clear();
    };
    for (std::string& token : tokens) {
      if (const auto byte = fallback_byte(token)) {
        bytes.push_back(static_cast<char>(*byte));
      } else {
        flush();
        out.push_back(std::move(token));
      }
    }
    flush();
    tokens = std::move(out);
  }
};

class Fuse : public Decoder {
 public:
  void apply(Tokens& tokens, bool) const override {
    std::string text;
    for (const std::string& token : tokens) text += token;
    tokens = {std::move(text)};
  }
};

class Strip : public Decoder {
 public:
  Strip(std::string content, uint64_t start, uint64_t stop)
      : content_(std::move(content)), start_(start), stop_(stop) {}
  void apply(Tokens& tokens, bool) const override {
    if (content_.empty()) return;
    for (std::string& token : tokens) {
      std::string_view view = token;
      for (uint64_t i = 0; i < start_ && view.starts_with(content_); ++i) view.remove_prefix(content_.size());
      for (uint64_t i = 0; i < stop_ && view.ends_with(content_); ++i) view.remove_suffix(content_.size());
      token = std::string(view);
    }
  }

 private:
  std::string content_;
  uint64_t start_, stop_;
};

class Replace : public Decoder {
 public:
  Replace(Regex pattern, std::string content) : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void apply(Tokens& tokens, bool) const override {
    std::vector<Span> matches;
    for (std::string& token : tokens) {
      matches.clear();
      if (!is_valid_utf8(token) || !pattern_.find_all(token, matches).ok() || matches.empty()) continue;
      // Several stages that each double a token would exhaust memory: a token with larger replacements is not
      // changed.
      constexpr size_t kMaxReplacementBytes = size_t{16} << 20;
      if (matches.size() * content_.size() > kMaxReplacementBytes) continue;
      std::string out;
      size_t at = 0;
      for (const Span match : matches) {
        out.append(token, at, match.begin - at).append(content_);
        at = match.end;
      }
      token = out.append(token, at);
    }
  }

 private:
  Regex pattern_;
  std::string content_;
};

class Ctc : public Decoder {
 public:
  Ctc(std::string pad, std::string delimiter, bool cleanup)
      : pad_(std::move(pad)), delimiter_(std::move(delimiter)), cleanup_(cleanup) {}
  void apply(Tokens& tokens, bool) const override {
    Tokens out;
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0 && tokens[i] == tokens[i - 1]) continue;
      std::string text = replace_all(tokens[i], pad_, "");
      if (cleanup_) text = replace_all(clean_up(std::move(text)), delimiter_, " ");
      if (!text.empty()) out.push_back(std::move(text));
    }
    tokens = std::move(out);
  }

 private:
  std::string pad_, delimiter_;
  bool cleanup_;
};

class Sequence : public Decoder {
 public:
  explicit Sequence(std::vector<std::unique_ptr<const Decoder>> parts) : parts_(std::move(parts)) {}
  void apply(Tokens& tokens, bool raw) const override {
    for (const auto& part : parts_) part->apply(tokens, raw);
  }
  bool is_byte_level() const override { return parts_.size() == 1 && parts_[0]->is_byte_level(); }

 private:
  std::vector<std::unique_ptr<const Decoder>> parts_;
};

template <class T, class... Args>
DecoderResult make(Args&&... args) {
  return DecoderResult(std::unique_ptr<const Decoder>(new T(std::forward<Args>(args)...)));
}

DecoderResult make_wordpiece(const Json& json) {
  MAKAR_TRY(std::string prefix, string_field(json, "prefix", "##"));
  MAKAR_TRY(const bool cleanup, bool_field(json, "cleanup", true));
  return make<WordPiece>(std::move(prefix), cleanup);
}

DecoderResult make_metaspace(const Json& json) {
  MAKAR_TRY(std::string mark, string_field(json, "replacement", "\u2581"));
  MAKAR_TRY(const bool prefix, bool_field(json, "add_prefix_space", true));
  MAKAR_TRY(const std::string scheme, string_field(json, "prepend_scheme", prefix ? "always" : "never"));
  return make<Metaspace>(std::move(mark), scheme != "never");
}

DecoderResult make_bpe(const Json& json) {
  MAKAR_TRY(std::string suffix, string_field(json, "suffix", "</w>"));
  return make<Bpe>(std::move(suffix));
}

DecoderResult make_strip(const Json& json) {
  MAKAR_TRY(std::string content, string_field(json, "content"));
  MAKAR_TRY(const uint64_t start, count_field(json, "start", 0));
  MAKAR_TRY(const uint64_t stop, count_field(json, "stop", 0));
  return make<Strip>(std::move(content), start, stop);
}

DecoderResult make_replace(const Json& json) {
  MAKAR_TRY(Regex pattern, pattern_field(json));
  MAKAR_TRY(std::string content, string_field(json, "content"));
  return make<Replace>(std::move(pattern), std::move(content));
}

DecoderResult make_ctc(const Json& json) {
  MAKAR_TRY(std::string pad, string_field(json, "pad_token", "<pad>"));
  MAKAR_TRY(std::string delimiter, string_field(json, "word_delimiter_token", "|"));
  MAKAR_TRY(const bool cleanup, bool_field(json, "cleanup", true));
  return make<Ctc>(std::move(pad), std::move(delimiter), cleanup);
}

DecoderResult make_sequence(const Json& json) {
  MAKAR_TRY(auto parts, make_components<Decoder>(json, "decoders"));
  return make<Sequence>(std::move(parts));
}

const ComponentKind<Decoder> kKinds[] = {
    {"ByteLevel", [](const Json&) { return make<ByteLevel>(); }},
    {"WordPiece", make_wordpiece},
    {"Metaspace", make_metaspace},
    {"BPEDecoder", make_bpe},
    {"ByteFallback", [](const Json&) { return make<ByteFallback>(); }},
    {"Fuse", [](const Json&) { return make<Fuse>(); }},
    {"Strip", make_strip},
    {"Replace", make_replace},
    {"CTC", make_ctc},
    {"Sequence", make_sequence},
};

}  // namespace

DecoderResult Decoder::from_json(const Json& json) { return make_component(json, "decoder", kKinds); }

}  // namespace makar

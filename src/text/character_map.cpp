#include "text/character_map.h"

#include <utf8proc.h>

#include <cstring>

#include "text/base64.h"
#include "text/field.h"

namespace makar {
namespace {

class Precompiled : public Normalizer {
 public:
  Precompiled(CharacterMap map, bool longest) : map_(std::move(map)), longest_(longest) {}

  Status apply(AlignedText& text) const override {
    const std::string& s = text.text();
    if (s.empty()) return Done{};
    Output out;
    out.characters.reserve(s.size());
    if (longest_) {
      for (size_t at = 0; at < s.size();) {
        if (const auto match = map_.longest(std::string_view(s).substr(at))) {
          replace(out, std::string_view(s).substr(at, match->size), match->replacement);
          at += match->size;
        } else {
          out.characters.emplace_back(next_code(s, at), 0);
        }
      }
    } else {
      for (size_t at = 0; at < s.size();) {
        const size_t size = grapheme_size(std::string_view(s).substr(at));
        map_grapheme(std::string_view(s).substr(at, size), out);
        at += size;
      }
    }
    // Removals before the first character have no output character to attach to: count them separately.
    Rewriter writer(text);
    writer.skip(out.leading_removals);
    for (const auto& [code, change] : out.characters) writer.put(code, change);
    return writer.finish(), Done{};
  }

 private:
  struct Output {
    std::vector<std::pair<char32_t, int>> characters;
    size_t leading_removals = 0;
  };

  void map_grapheme(std::string_view grapheme, Output& out) const {
    if (grapheme.size() < 6) {  // longer graphemes are mapped by character, as in the Hugging Face library
      if (const auto match = map_.shortest(grapheme)) return replace(out, grapheme, match->replacement);
    }
    for (size_t at = 0; at < grapheme.size();) {
      const size_t from = at;
      const char32_t code = next_code(grapheme, at);
      const std::string_view part = grapheme.substr(from, at - from);
      if (const auto match = map_.shortest(part))
        replace(out, part, match->replacement);
      else
        out.characters.emplace_back(code, 0);
    }
  }

  static void replace(Output& out, std::string_view source, std::string_view target) {
    const int before = static_cast<int>(count_code_points(source)),
              after = static_cast<int>(count_code_points(target));
    for (size_t at = 0; at < target.size();) out.characters.emplace_back(next_code(target, at), 0);
    if (after > before) {
      for (int i = 0; i < after - before; ++i) out.characters[out.characters.size() - 1 - i].second = 1;
    } else if (after < before) {
      if (out.characters.empty())
        out.leading_removals += before - after;
      else
        out.characters.back().second += after - before;
    }
  }

  static size_t grapheme_size(std::string_view text) {
    if (text.size() >= 2 && static_cast<unsigned char>(text[0]) < 0x80 &&
        static_cast<unsigned char>(text[1]) < 0x80)
      return text[0] == '\r' && text[1] == '\n' ? 2 : 1;
    size_t at = 0;
    utf8proc_int32_t state = 0;
    char32_t previous = next_code(text, at);
    while (at < text.size()) {
      size_t next = at;
      const char32_t code = next_code(text, next);
      if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(previous),
                                           static_cast<utf8proc_int32_t>(code), &state))
        break;
      previous = code;
      at = next;
    }
    return at;
  }

  CharacterMap map_;
  bool longest_;
};

}  // namespace

Result<CharacterMap> CharacterMap::parse(std::string_view bytes) {
  CharacterMap map;
  if (bytes.empty()) return map;
  uint32_t size = 0;
  if (bytes.size() < 4 || (std::memcpy(&size, bytes.data(), 4), size > bytes.size() - 4) || size % 4 != 0)
    return error_at("precompiled_charsmap", "the header gives a trie of {} bytes but the map has {}", size,
                    bytes.size());
  map.trie_.resize(size / 4);
  if (size) std::memcpy(map.trie_.data(), bytes.data() + 4, size);
  map.pool_ = bytes.substr(4 + size);
  return map;
}

bool CharacterMap::step(size_t& node, char byte, uint32_t& unit) const {
  const auto label = static_cast<unsigned char>(byte);
  node ^= label;
  if (node >= trie_.size()) return false;
  unit = trie_[node];
  if ((unit & (1u << 31 | 0xFF)) != label) return false;
  node ^= offset(unit);
  return true;
}

bool CharacterMap::any_starts_with(std::string_view text) const {
  if (trie_.empty()) return false;
  size_t node = root();
  uint32_t unit = 0;
  for (const char c : text)
    if (!step(node, c, unit)) return false;
  return true;
}

std::optional<CharacterMap::Match> CharacterMap::find(std::string_view text, bool stop_at_first) const {
  if (trie_.empty()) return std::nullopt;
  std::optional<Match> best;
  size_t node = root();
  uint32_t unit = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (!step(node, text[i], unit)) break;
    if ((unit >> 8 & 1) == 1) {
      if (node >= trie_.size()) break;
      const size_t at = trie_[node] & 0x7FFFFFFF;
      if (at >= pool_.size()) break;
      const size_t end = pool_.find('\0', at);
      const std::string_view target =
          std::string_view(pool_).substr(at, (end == std::string::npos ? pool_.size() : end) - at);
      if (!is_valid_utf8(target)) break;
      // A source that ends inside a character can only come from an invalid map.
      if (i + 1 < text.size() && is_utf8_continuation(text[i + 1])) continue;
      best = Match{i + 1, target};
      if (stop_at_first) return best;
    }
  }
  return best;
}

Result<std::unique_ptr<const Normalizer>> make_character_map(const Json& json) {
  MAKAR_TRY(const std::string text, string_field(json, "precompiled_charsmap", ""));
  MAKAR_TRY(const bool longest, bool_field(json, "longest_match", false));
  const auto bytes = decode_base64(text);
  if (!bytes) return error_at("precompiled_charsmap", "is not valid base64");
  MAKAR_TRY(CharacterMap map, CharacterMap::parse(*bytes));
  return std::unique_ptr<const Normalizer>(new Precompiled(std::move(map), longest));
}

}  // namespace makar

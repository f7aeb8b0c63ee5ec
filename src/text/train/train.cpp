#include "text/train/train.h"

#include <algorithm>
#include <set>

#include "text/byte_alphabet.h"
#include "text/read/build_json.h"

namespace makar {
namespace {

using Model = TrainSettings::Model;

bool has_stage(const Json& stage, const char* type) {
  if (!stage.is_object()) return false;
  if (stage.value("type", "") == type) return true;
  for (const char* list : {"pretokenizers", "normalizers"})
    if (stage.contains(list) && stage[list].is_array())
      for (const Json& inner : stage[list])
        if (has_stage(inner, type)) return true;
  return false;
}

Json vocabulary_json(const std::vector<std::string>& tokens) {
  Json out = Json::object();
  for (size_t i = 0; i < tokens.size(); ++i) put_token(out, tokens[i], static_cast<uint32_t>(i));
  return out;
}

Json string_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

BpeSettings bpe_settings(const TrainSettings& s) {
  BpeSettings t = s.bpe;
  t.vocab_size = s.vocab_size;
  t.min_frequency = s.min_frequency;
  t.special_tokens = s.special_tokens;
  t.bytes = trains_on_bytes(s);
  if (has_stage(s.pipeline.pre_tokenizer, "ByteLevel"))
    for (int b = 0; b < 256; ++b) t.initial_alphabet.push_back(byte_to_letter(static_cast<unsigned char>(b)));
  if (s.model == Model::kWordPiece && t.continuing_prefix.empty()) t.continuing_prefix = "##";
  return t;
}

// Splits into characters; the decoder joins them without blanks.
TrainPipeline with_character_split(TrainPipeline p) {
  const Json character_split = {
      {"type", "Split"}, {"pattern", {{"Regex", "[\\s\\S]"}}}, {"behavior", "Isolated"}, {"invert", false}};
  p.pre_tokenizer =
      p.pre_tokenizer.is_null()
          ? character_split
          : Json{{"type", "Sequence"}, {"pretokenizers", Json::array({p.pre_tokenizer, character_split})}};
  if (p.decoder.is_null()) p.decoder = {{"type", "Fuse"}};
  return p;
}

// The most frequent words (for character models, words of one letter); equal counts in byte order.
Json word_level_model(const std::vector<WordCount>& words, const TrainSettings& s, const std::string& unk) {
  std::vector<WordCount> items = words;
  std::sort(items.begin(), items.end(), [](const WordCount& a, const WordCount& b) {
    return a.count != b.count ? a.count > b.count : a.word < b.word;
  });
  std::vector<std::string> tokens = s.special_tokens;
  std::set<std::string> known(tokens.begin(), tokens.end());
  if (known.insert(unk).second) tokens.push_back(unk);
  for (const WordCount& w : items) {
    if (tokens.size() >= s.vocab_size || w.count < s.min_frequency) break;
    if (known.insert(w.word).second) tokens.push_back(w.word);
  }
  return {{"type", "WordLevel"}, {"vocab", vocabulary_json(tokens)}, {"unk_token", unk}};
}

Json unigram_json(const TrainedUnigram& trained) {
  Json vocab = Json::array();
  for (const auto& [piece, score] : trained.pieces) vocab.push_back(Json::array({piece, score}));
  Json out = {
      {"type", "Unigram"}, {"unk_id", nullptr}, {"vocab", std::move(vocab)}, {"byte_fallback", false}};
  if (trained.unk_id) out["unk_id"] = *trained.unk_id;
  return out;
}

Json added_tokens(const TrainSettings& settings, const Json& model) {
  Json out = Json::array();
  const auto add = [&](size_t id, const std::string& content) {
    out.push_back(added_token(static_cast<uint32_t>(id), content, true));
  };
  const std::set<std::string> special(settings.special_tokens.begin(), settings.special_tokens.end());
  size_t id = 0;
  if (model["type"] == "Unigram") {
    for (const Json& piece : model["vocab"]) {
      if (special.count(piece[0].get_ref<const std::string&>())) add(id, piece[0].get<std::string>());
      ++id;
    }
  } else {
    for (const auto& [token, number] : model["vocab"].items())
      if (special.count(token)) add(number.get<size_t>(), token);
  }
  return out;
}

}  // namespace

bool trains_on_bytes(const TrainSettings& s) {
  return s.model == Model::kBpe && s.bpe.continuing_prefix.empty() && s.bpe.end_suffix.empty() &&
         has_stage(s.pipeline.pre_tokenizer, "ByteLevel");
}

Result<Json> train_model(const std::vector<WordCount>& words, const TrainSettings& s, ThreadPool& pool,
                         const std::function<void(const TrainStage&)>& progress, double* loss) {
  if (words.empty()) return error_at("corpus", "has no words to train on");
  if (s.model == Model::kUnigram) {
    UnigramSettings t = s.unigram;
    t.vocab_size = s.vocab_size;
    t.special_tokens = s.special_tokens;
    if (!s.unk_token.empty()) t.unk_token = s.unk_token;
    MAKAR_TRY(const TrainedUnigram trained,
              train_unigram(words, t, pool, [&](size_t pieces, size_t target, double step_loss) {
                if (progress) progress({"prune", pieces, target, step_loss});
              }));
    if (loss) *loss = trained.loss;
    return unigram_json(trained);
  }
  if (s.model == Model::kWord || s.model == Model::kCharacter)
    return word_level_model(words, s, s.unk_token.empty() ? "[UNK]" : s.unk_token);
  const BpeSettings t = bpe_settings(s);
  MAKAR_TRY(const TrainedBpe trained, train_bpe(words, t, [&](size_t tokens, size_t target) {
              if (progress) progress({"merge", tokens, target});
            }));
  if (s.model == Model::kWordPiece)
    return Json{{"type", "WordPiece"},
                {"unk_token", s.unk_token.empty() ? "[UNK]" : s.unk_token},
                {"continuing_subword_prefix", t.continuing_prefix},
                {"max_input_chars_per_word", 100},
                {"vocab", vocabulary_json(trained.tokens)}};
  Json merges = Json::array();
  for (const auto& [left, right] : trained.merges)
    merges.push_back(Json::array({trained.tokens[left], trained.tokens[right]}));
  Json out = {{"type", "BPE"},
              {"dropout", nullptr},
              {"unk_token", string_or_null(s.unk_token)},
              {"continuing_subword_prefix", string_or_null(t.continuing_prefix)},
              {"end_of_word_suffix", string_or_null(t.end_suffix)},
              {"fuse_unk", false},
              {"byte_fallback", false},
              {"ignore_merges", false}};
  out["vocab"] = vocabulary_json(trained.tokens);
  out["merges"] = std::move(merges);
  return out;
}

Result<TrainReport> train_tokenizer(Corpus& corpus, const TrainSettings& settings, ThreadPool& pool,
                                    const std::function<void(const TrainStage&)>& progress) {
  TrainSettings s = settings;
  if (s.model == Model::kCharacter) s.pipeline = with_character_split(std::move(s.pipeline));
  for (size_t i = 0; i < s.special_tokens.size(); ++i)
    if (s.special_tokens[i].empty() ||
        std::count(s.special_tokens.begin(), s.special_tokens.end(), s.special_tokens[i]) > 1)
      return error_at("special_tokens", "'{}' is empty or a duplicate", s.special_tokens[i]);
  MAKAR_TRY(const WordCounts counts, count_words(corpus, s, pool, progress));
  TrainReport report;
  MAKAR_TRY(Json model, train_model(counts.words, s, pool, progress, &report.loss));
  report.sequences = corpus.sequences(), report.bytes = corpus.bytes_read();
  report.words = counts.total, report.different_words = counts.words.size();
  report.dropped_words = counts.dropped_words, report.dropped_total = counts.dropped_total;
  report.runs = counts.runs;
  Json& out = report.tokenizer;
  out = {{"version", "1.0"},
         {"truncation", nullptr},
         {"padding", nullptr},
         {"added_tokens", added_tokens(s, model)}};
  out["normalizer"] = s.pipeline.normalizer;
  out["pre_tokenizer"] = s.pipeline.pre_tokenizer;
  out["post_processor"] = s.pipeline.post_processor;
  out["decoder"] = s.pipeline.decoder;
  out["model"] = std::move(model);
  return report;
}

}  // namespace makar

#include "train/denoise.h"

#include <algorithm>
#include <cmath>

#include "ops/elementwise.h"
#include "ops/shape.h"
#include "ops/softmax.h"
#include "train/permuted.h"
#include "train/replaced.h"

namespace makar {
namespace {

constexpr int64_t kSpecialTokens = 3;   // of a window: [CLS] and two [SEP]
constexpr int64_t kMinPieceTokens = 4;  // shorter pieces of documents are not used

int64_t id_or(const Tokenizer& t, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const auto id = t.id(name)) return *id;
  return -1;
}

// Splits `n` items at random into `parts` runs of at least one item.
std::vector<size_t> random_cut(size_t n, size_t parts, Draws& draws) {
  std::vector<size_t> ends;  // parts - 1 of the n - 1 inner boundaries, by selection sampling
  size_t left = parts - 1;
  for (size_t i = 1; i < n && left > 0; ++i)
    if (draws.below(n - i) < left) ends.push_back(i), --left;
  ends.push_back(n);
  std::vector<size_t> sizes;
  for (size_t i = 0; i < ends.size(); ++i) sizes.push_back(ends[i] - (i > 0 ? ends[i - 1] : 0));
  return sizes;
}

}  // namespace

SpecialIds SpecialIds::of(const Tokenizer& t) {
  SpecialIds s;
  s.cls = id_or(t, {"[CLS]", "<cls>", "<s>"}), s.sep = id_or(t, {"[SEP]", "<sep>", "</s>"});
  s.mask = id_or(t, {"[MASK]", "<mask>"}), s.eos = id_or(t, {"</s>", "[SEP]", "<|endoftext|>"});
  s.bos = id_or(t, {"<s>", "[CLS]"});
  for (int i = 0; i < 100; ++i) {  // T5 has 100 sentinels
    const auto id = t.id(fmt::format("<extra_id_{}>", i));
    if (!id) break;
    s.sentinels.push_back(*id);
  }
  s.vocab = static_cast<int64_t>(t.vocab_size());
  return s;
}

void mask_tokens(std::vector<int64_t>& ids, std::vector<int64_t>& targets, const SpecialIds& s, double share,
                 Draws& draws) {
  for (int64_t& id : ids) {
    const bool special = id == s.cls || id == s.sep || id == s.eos;
    const double select_draw = draws.uniform(), kind_draw = draws.uniform();
    const uint64_t random_id = draws.below(static_cast<uint64_t>(s.vocab));
    if (special || select_draw >= share) {
      targets.push_back(ops::kIgnore);
      continue;
    }
    targets.push_back(id);
    if (kind_draw < 0.8)
      id = s.mask;
    else if (kind_draw < 0.9)
      id = static_cast<int64_t>(random_id);
  }
}

TokenPair corrupt_spans(const std::vector<int64_t>& ids, const SpecialIds& s, Draws& draws) {
  const size_t n = ids.size();
  const auto masked_count = std::clamp<size_t>(
      static_cast<size_t>(std::lround(0.15 * static_cast<double>(n))), 1, std::max<size_t>(1, n - 1));
  auto spans = std::max<size_t>(1, static_cast<size_t>(std::lround(static_cast<double>(masked_count) / 3.0)));
  spans = std::min({spans, masked_count, std::max<size_t>(1, n - masked_count), s.sentinels.size()});
  const auto masked_lengths = random_cut(masked_count, spans, draws);
  const auto kept_lengths =
      n > masked_count ? random_cut(n - masked_count, spans, draws) : std::vector<size_t>(spans, 0);
  TokenPair out;
  size_t at = 0;
  for (size_t i = 0; i < spans; ++i) {
    out.source.insert(out.source.end(), ids.begin() + static_cast<std::ptrdiff_t>(at),
                      ids.begin() + static_cast<std::ptrdiff_t>(at + kept_lengths[i]));
    at += kept_lengths[i];
    out.source.push_back(s.sentinels[i]);
    out.target.push_back(s.sentinels[i]);
    out.target.insert(out.target.end(), ids.begin() + static_cast<std::ptrdiff_t>(at),
                      ids.begin() + static_cast<std::ptrdiff_t>(at + masked_lengths[i]));
    at += masked_lengths[i];
  }
  out.source.push_back(s.eos), out.target.push_back(s.eos);
  return out;
}

TokenPair infill(const std::vector<int64_t>& ids, const SpecialIds& s, Draws& draws) {
  TokenPair out;
  auto left = static_cast<int64_t>(std::lround(0.3 * static_cast<double>(ids.size())));
  for (size_t i = 0; i < ids.size();) {
    // A span starts with probability 0.3 / 3 per token; the factor 1.2 makes it likelier that all 30 % are
    // used.
    if (left > 0 && draws.uniform() < 0.1 * 1.2) {
      int64_t length = 0;
      for (double p = std::exp(-3.0), sum = p, u = draws.uniform(); sum < u && length < 12; sum += p)
        p *= 3.0 / static_cast<double>(++length);
      length = std::min({length, left, static_cast<int64_t>(ids.size() - i)});
      out.source.push_back(s.mask);
      i += static_cast<size_t>(length), left -= std::max<int64_t>(1, length);
      if (length > 0 || i >= ids.size()) continue;
    }
    out.source.push_back(ids[i++]);
  }
  out.source.push_back(s.eos);
  out.target = ids;
  out.target.push_back(s.eos);
  return out;
}

DenoiseTask::DenoiseTask(Model& model, std::vector<TokenSource> sources, std::vector<TokenStore> validation,
                         CausalOptions options, SpecialIds special, NoiseKind noise, Model* generator)
    : model_(model),
      sources_(std::move(sources)),
      validation_(std::move(validation)),
      o_(options),
      special_(std::move(special)),
      noise_(noise),
      generator_(generator),
      mixture_(mixture_of(sources_, o_.seed)) {}

Result<NoiseKind> DenoiseTask::noise_of(const ModelSpec& spec, const SpecialIds& s) {
  const auto missing = [&](const char* what) {
    return error_at("tokenizer", "has no {} token, which training a {} needs", what, spec.architecture);
  };
  if (spec.head.kind == HeadKind::kMaskedLm && spec.family == "xlnet") {
    if (s.cls < 0 || s.sep < 0) return missing("<cls> or <sep>");
    return NoiseKind::kPermuted;
  }
  if (spec.head.kind == HeadKind::kReplacedToken) {
    if (s.mask < 0 || s.cls < 0 || s.sep < 0) return missing("[MASK], [CLS] or [SEP]");
    return NoiseKind::kReplaced;
  }
  if (spec.head.kind == HeadKind::kMaskedLm || spec.head.kind == HeadKind::kPretraining) {
    if (s.mask < 0 || s.cls < 0 || s.sep < 0) return missing("[MASK], [CLS] or [SEP]");
    return NoiseKind::kMasked;
  }
  if (!spec.encoder || !spec.decoder)
    return error_of(Error::Kind::kUnsupported, "pretrain", "a {} is not trained by denoising",
                    spec.architecture);
  if (s.eos < 0) return missing("</s>");
  if (!s.sentinels.empty()) return NoiseKind::kSpans;
  if (s.mask < 0) return missing("<extra_id_0> or <mask>");
  return NoiseKind::kInfill;
}

DenoiseTask::Masked DenoiseTask::mask(const Pieces& pieces, uint64_t draw) const {
  Draws draws{Rng(o_.seed, Purpose::kMask, draw)};
  const bool types = model_.spec().encoder->embedding.types > 0;
  Masked out;
  std::vector<int64_t> targets;
  for (size_t p = 0; p < pieces.size(); ++p) {
    std::vector<int64_t> ids = {special_.cls}, second;
    ids.insert(ids.end(), pieces[p].begin(), pieces[p].end());
    if (pairs()) {  // the second half is the continuation, or comes from another text
      const size_t half = 1 + pieces[p].size() / 2;
      const auto& other = pieces[(p + 1) % pieces.size()];
      const bool swap = draws.uniform() < 0.5 && pieces.size() > 1;
      if (swap)
        second.assign(other.begin() + static_cast<std::ptrdiff_t>(other.size() / 2), other.end());
      else
        second.assign(ids.begin() + static_cast<std::ptrdiff_t>(half), ids.end());
      ids.resize(half);
      out.next.push_back(swap ? 1 : 0);
    }
    ids.push_back(special_.sep);
    const size_t first = ids.size();
    ids.insert(ids.end(), second.begin(), second.end());
    if (pairs()) ids.push_back(special_.sep);
    mask_tokens(ids, targets, special_, 0.15, draws);
    out.batch.add(ids);
    for (size_t i = 0; types && i < ids.size(); ++i) out.batch.types.push_back(i < first ? 0 : 1);
  }
  for (size_t i = 0; i < targets.size(); ++i)
    if (targets[i] != ops::kIgnore)
      out.rows.push_back(static_cast<int64_t>(i)), out.originals.push_back(targets[i]);
  return out;
}

MicroBatch DenoiseTask::masked(Masked examples) {
  MicroBatch out;
  out.tokens = examples.batch.rows(), out.squared_lengths = squared_lengths(examples.batch),
  out.weight = static_cast<double>(examples.originals.size());
  LanguageBatch language;
  language.inputs.source = examples.batch;
  language.targets.assign(static_cast<size_t>(out.tokens), ops::kIgnore);
  for (size_t i = 0; i < examples.rows.size(); ++i)
    language.targets[static_cast<size_t>(examples.rows[i])] = examples.originals[i];
  out.language = std::make_shared<const LanguageBatch>(std::move(language));
  out.loss = [this, e = std::move(examples)](ForwardContext& f) -> Result<Tensor> {
    Inputs inputs;
    inputs.source = e.batch;
    const Tensor hidden = model_.hidden(f, inputs);
    // Compute logits only for the masked tokens.
    Tensor loss = model_.lm_loss(f.ops, ops::gather_rows(f.ops, hidden, e.rows), e.originals,
                                 f.ops.tape ? o_.smoothing : 0.0f);
    if (!e.next.empty())
      loss = ops::add(f.ops, loss,
                      ops::cross_entropy(f.ops, model_.next_sentence_logits(f.ops, hidden, e.batch), e.next));
    return loss;
  };
  return out;
}

MicroBatch DenoiseTask::permuted(const Pieces& pieces, uint64_t draw) {
  Draws draws{Rng(o_.seed, Purpose::kMask, draw)};
  Permuted out;
  for (const auto& piece : pieces) {
    const auto length = static_cast<int64_t>(piece.size());
    std::vector<int64_t> ids = piece;  // the special tokens at the end are context, not targets
    ids.insert(ids.end(), {special_.sep, special_.cls});
    add_permuted(out, ids, permuted_targets(length, std::max<int64_t>(1, length / 6), draws));
  }
  return permuted_batch(model_, std::move(out), o_.smoothing);
}

Result<Metrics> DenoiseTask::metrics(Device& device) {
  if (!pairs()) return Metrics{};
  double correct = 0, pairs_seen = 0;
  for (uint64_t i = 0; i < validation_batches(); ++i) {
    const Masked e = mask(validation_pieces(i), kValidationDraw + i);
    if (e.next.empty()) continue;
    Context ctx{device};
    ForwardContext f{ctx};
    Inputs inputs;
    inputs.source = e.batch;
    const Tensor logits =
        model_.next_sentence_logits(ctx, model_.hidden(f, inputs), e.batch).host();  // [pairs, 2]
    for (size_t p = 0; p < e.next.size(); ++p)
      correct += (logits.f32()[2 * p + 1] > logits.f32()[2 * p]) == (e.next[p] == 1);
    pairs_seen += static_cast<double>(e.next.size());
  }
  return pairs_seen > 0 ? Metrics{{"next_sentence_accuracy", correct / pairs_seen}} : Metrics{};
}

Result<MicroBatch> DenoiseTask::make(const Pieces& pieces, uint64_t draw) {
  if (noise_ == NoiseKind::kMasked) return masked(mask(pieces, draw));
  if (noise_ == NoiseKind::kPermuted) return permuted(pieces, draw);
  if (noise_ == NoiseKind::kReplaced) {
    Masked examples = mask(pieces, draw);
    for (const int64_t row : examples.rows) examples.batch.tokens[static_cast<size_t>(row)] = special_.mask;
    return replaced_batch(
        model_, *generator_,
        {std::move(examples.batch), std::move(examples.rows), std::move(examples.originals)}, o_.seed, draw);
  }
  Draws draws{Rng(o_.seed, Purpose::kMask, draw)};
  std::vector<TokenPair> examples;
  for (const auto& ids : pieces)
    examples.push_back(noise_ == NoiseKind::kSpans ? corrupt_spans(ids, special_, draws)
                                                   : infill(ids, special_, draws));
  return pair_batch(model_, examples, o_.smoothing);
}

Result<MicroBatch> DenoiseTask::train_batch(uint64_t index) {
  std::vector<std::vector<int64_t>> pieces;
  const int64_t text_tokens = o_.context - kSpecialTokens;
  for (int64_t i = 0; i < o_.batch; ++i) {
    const auto window = window_at(sources_, mixture_, text_tokens, o_.seed,
                                  index * static_cast<uint64_t>(o_.batch) + static_cast<uint64_t>(i));
    for (const TokenRange& r : window.store->document_ranges(
             window.begin, std::min(window.begin + text_tokens, window.store->tokens())))
      if (r.size() >= kMinPieceTokens) pieces.push_back(window.store->read(r));
  }
  return make(pieces, index);
}

uint64_t DenoiseTask::batches_per_epoch() const {
  uint64_t windows = 0;
  for (const TokenSource& s : sources_) windows += window_count(s.store, o_.context - kSpecialTokens) + 1;
  return std::max<uint64_t>(1, windows / static_cast<uint64_t>(o_.batch));
}

uint64_t DenoiseTask::validation_batches() const {
  const int64_t batch_tokens = (o_.context - kSpecialTokens) * o_.batch;
  uint64_t n = 0;
  for (const TokenStore& v : validation_)
    n +=
        static_cast<uint64_t>((std::min(v.tokens(), o_.validation_tokens) + batch_tokens - 1) / batch_tokens);
  return n;
}

DenoiseTask::Pieces DenoiseTask::validation_pieces(uint64_t index) const {
  const int64_t text_tokens = o_.context - kSpecialTokens, batch_tokens = text_tokens * o_.batch;
  Pieces pieces;
  for (const TokenStore& v : validation_) {
    const int64_t all = std::min(v.tokens(), o_.validation_tokens);
    const auto batches = static_cast<uint64_t>((all + batch_tokens - 1) / batch_tokens);
    if (index >= batches) {
      index -= batches;
      continue;
    }
    for (int64_t w = 0; w < o_.batch; ++w) {
      const int64_t begin = static_cast<int64_t>(index) * batch_tokens + w * text_tokens;
      if (begin >= all) break;
      for (const TokenRange& r : v.document_ranges(begin, std::min(begin + text_tokens, all)))
        if (r.size() >= kMinPieceTokens) pieces.push_back(v.read(r));
    }
    break;
  }
  return pieces;
}

Result<MicroBatch> DenoiseTask::validation_batch(uint64_t index) {
  return make(validation_pieces(index), kValidationDraw + index);
}

}  // namespace makar

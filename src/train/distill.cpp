#include "train/distill.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/rng.h"
#include "nn/block_parts.h"
#include "ops/shape.h"
#include "ops/softmax.h"
#include "train/objective.h"

namespace makar {
namespace {

bool is_single_stack(const ModelSpec& spec) { return !(spec.encoder && spec.decoder); }

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t out = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), out);
  return code == std::errc() && end == text.data() + text.size() ? std::optional(out) : std::nullopt;
}

// The rows that have a target, and their targets.
struct TargetRows {
  std::vector<int64_t> rows, targets;
  explicit TargetRows(const std::vector<int64_t>& all) {
    for (size_t i = 0; i < all.size(); ++i)
      if (all[i] != ops::kIgnore) rows.push_back(static_cast<int64_t>(i)), targets.push_back(all[i]);
  }
};

// The attention of a layer (1: the first); null for the embedding and for layers without attention.
const AttentionSpec* attention_of(const Model& model, int64_t layer) {
  if (layer == 0) return nullptr;
  const BlockSpec& b = model.spec().main().blocks[static_cast<size_t>(layer - 1)];
  return has_attention(b) ? &b.attention : nullptr;
}

// The index of a layer's queries and keys in a record, which has only layers with attention.
size_t attention_index(const Model& model, int64_t layer) {
  size_t out = 0;
  for (int64_t i = 1; i < layer; ++i) out += attention_of(model, i) ? 1 : 0;
  return out;
}

// The index of a layer's hidden states in a record. Mamba records no embedding.
std::optional<size_t> state_index(const Model& model, int64_t layer) {
  const StackSpec& s = model.spec().main();
  if (!s.record_outputs || layer == s.layers()) return static_cast<size_t>(layer);
  return layer > 0 ? std::optional(static_cast<size_t>(layer - 1)) : std::nullopt;
}

// The width of a layer's recorded hidden states; some models project the last ones (OPT).
int64_t state_width(const Model& model, int64_t layer) {
  const StackSpec& s = model.spec().main();
  return layer == s.layers() && s.project_out > 0 && !s.record_before_norm ? s.project_out : s.width;
}

Status check_attention(const AttentionSpec& s, const AttentionSpec& t) {
  const auto plain = [](const AttentionSpec& a) {
    return a.bias == BiasKind::kNone && !a.sink_logits && !a.latent && !a.relative;
  };
  if (!plain(s) || !plain(t))
    return error_of(Error::Kind::kUnsupported, "attention_weight",
                    "attention with a position bias, relative positions, sinks or latent keys cannot be "
                    "compared; use hidden_weight");
  if (s.heads != t.heads || s.causal != t.causal || s.window != t.window)
    return error_at("attention_weight",
                    "attention is compared head by head: the student has {} heads and a window of {}, the "
                    "teacher {} and {}; use hidden_weight",
                    s.heads, s.window, t.heads, t.window);
  return Done{};
}

Status check_attention(const Model& student, const Model& teacher, const LayerMap& layers) {
  bool any = false;
  for (const auto& [a, b] : layers) {
    const AttentionSpec *s = attention_of(student, a), *t = attention_of(teacher, b);
    if (!s || !t) continue;
    MAKAR_RETURN_IF_ERROR(check_attention(*s, *t));
    any = true;
  }
  if (any) return Done{};
  return error_at("attention_weight",
                  "no two of the compared layers have attention (0 is the embedding, and some layers of {} "
                  "may have none); choose others with layer_map, or use hidden_weight",
                  teacher.spec().architecture);
}

Status check_hidden(const Model& student, const Model& teacher, const LayerMap& layers) {
  for (const auto& [a, b] : layers)
    if (state_index(student, a) && state_index(teacher, b)) return Done{};
  return error_at("hidden_weight",
                  "the hidden states of the compared layers are not known (a {} does not "
                  "record its embedding); choose others with layer_map",
                  teacher.spec().architecture);
}

}  // namespace

LayerMap even_layers(int64_t student, int64_t teacher) {
  LayerMap out;
  for (int64_t i = 0; i <= student; ++i) out.emplace_back(i, i * teacher / student);
  return out;
}

Result<LayerMap> parse_layer_map(const std::string& text, int64_t student, int64_t teacher,
                                 const std::string& place) {
  LayerMap out;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string_view entry = std::string_view(text).substr(at, comma - at);
    const size_t colon = entry.find(':');
    const auto a = whole_number(entry.substr(0, colon));
    const auto b = colon == std::string_view::npos ? std::nullopt : whole_number(entry.substr(colon + 1));
    if (!a || !b)
      return error_at(place, "expected STUDENT:TEACHER pairs such as 1:2,2:4, got '{}'", std::string(entry));
    if (*a < 0 || *a > student || *b < 0 || *b > teacher)
      return error_at(place, "'{}': the student has layers 0 (embedding) to {}, the teacher 0 to {}",
                      std::string(entry), student, teacher);
    out.emplace_back(*a, *b);
    at = comma + 1;
  }
  return out;
}

Result<std::vector<int64_t>> parse_layers(const std::string& text, int64_t teacher,
                                          const std::string& place) {
  std::vector<int64_t> out;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string_view entry = std::string_view(text).substr(at, comma - at);
    const auto number = whole_number(entry);
    if (!number || *number < 1 || *number > teacher)
      return error_at(place, "expected 1 to the teacher's {}, got '{}'", teacher, std::string(entry));
    if (!out.empty() && *number <= out.back())
      return error_at(place, "expected the numbers of layers in ascending order, got '{}'", text);
    out.push_back(*number);
    at = comma + 1;
  }
  return out;
}

Status DistillTask::check(const Model& student, const Model& teacher, const DistillOptions& o) {
  const ModelSpec &s = student.spec(), &t = teacher.spec();
  if (s.head.kind != t.head.kind || is_single_stack(s) != is_single_stack(t))
    return error_of(Error::Kind::kUnsupported, "teacher",
                    "a {} cannot be the teacher of a {}; use a teacher with the same kind of head",
                    t.architecture, s.architecture);
  if (s.head.kind != HeadKind::kCausalLm && s.head.kind != HeadKind::kMaskedLm)
    return error_of(Error::Kind::kUnsupported, "teacher",
                    "a {} does not predict tokens, which distillation needs", t.architecture);
  if (s.vocab != t.vocab)
    return error_at("teacher", "the teacher has a vocabulary of {}, the student of {}; they must be the same",
                    t.vocab, s.vocab);
  if (o.hidden_weight <= 0 && o.attention_weight <= 0) return Done{};
  if (!is_single_stack(s))
    return error_of(Error::Kind::kUnsupported, "hidden_weight",
                    "hidden states and attention of an encoder-decoder cannot be compared; set hidden_weight "
                    "and attention_weight to 0");
  if (o.hidden_weight > 0) MAKAR_RETURN_IF_ERROR(check_hidden(student, teacher, o.layers));
  return o.attention_weight > 0 ? check_attention(student, teacher, o.layers) : Status(Done{});
}

DistillTask::DistillTask(Model& student, const Model& teacher, std::unique_ptr<Task> data,
                         const DistillOptions& options)
    : student_(student), teacher_(teacher), data_(std::move(data)), o_(options) {
  projections_.resize(o_.layers.size(), nullptr);
  for (size_t i = 0; i < o_.layers.size() && o_.hidden_weight > 0; ++i) {
    const auto [a, b] = o_.layers[i];
    const int64_t from = state_width(student, a), to = state_width(teacher, b);
    if (from == to || !state_index(student, a) || !state_index(teacher, b)) continue;
    Parameter* p = student.parameters().add(fmt::format("distill.projection.{}.weight", i), {to, from});
    p->auxiliary = true;
    p->value = Tensor::zeros(p->shape);
    const Rng rng(o_.seed, Purpose::kInit, (uint64_t{1} << 32) + i);
    const float deviation = 1.0f / std::sqrt(static_cast<float>(from));
    for (int64_t k = 0; k < p->value.count(); ++k)
      p->value.f32()[k] = deviation * rng.normal(static_cast<uint64_t>(k));
    projections_[i] = p;
  }
}

Status DistillTask::prepare_step(uint64_t step, Device& device) {
  sums_ = {};
  return data_->prepare_step(step, device);
}

Tensor DistillTask::hidden_loss(Context& ctx, const Record& student, const Record& teacher) const {
  Tensor total;
  float layer_pairs = 0;
  for (size_t i = 0; i < o_.layers.size(); ++i) {
    const auto a = state_index(student_, o_.layers[i].first), b = state_index(teacher_, o_.layers[i].second);
    if (!a || !b) continue;
    Tensor x = student.hidden_states[*a];
    const Tensor& y = teacher.hidden_states[*b];
    if (projections_[i]) x = ops::linear(ctx, x, projections_[i]->value);
    const Tensor term =
        o_.hidden == HiddenLoss::kSquare ? hidden_distance(ctx, x, y) : hidden_angle(ctx, x, y);
    total = total.defined() ? ops::add(ctx, total, term) : term;
    layer_pairs += 1;
  }
  makar::check(total.defined(), "check() finds a pair of layers");
  return ops::scale(ctx, total, 1.0f / layer_pairs);
}

Tensor DistillTask::attention_loss(Context& ctx, const Record& student, const Record& teacher,
                                   const Batch& batch) const {
  Tensor total;
  float layer_pairs = 0;
  for (const auto& [a, b] : o_.layers) {
    const AttentionSpec *s = attention_of(student_, a), *t = attention_of(teacher_, b);
    if (!s || !t) continue;
    const size_t i = attention_index(student_, a), j = attention_index(teacher_, b);
    const Tensor term = attention_distance(ctx, {student.queries[i], student.keys[i], *s},
                                           {teacher.queries[j], teacher.keys[j], *t}, batch.sequences,
                                           o_.attention == AttentionLoss::kDivergence);
    total = total.defined() ? ops::add(ctx, total, term) : term;
    layer_pairs += 1;
  }
  makar::check(total.defined(), "check() finds a pair of layers");
  return ops::scale(ctx, total, 1.0f / layer_pairs);
}

Result<Tensor> DistillTask::loss(ForwardContext& f, const LanguageBatch& batch) {
  Context& ctx = f.ops;
  const bool compare_hidden = o_.hidden_weight > 0, compare_attention = o_.attention_weight > 0;
  const bool balanced = student_.spec().router_loss > 0 && student_.spec().main().routed() && ctx.tape;
  Record student_record, teacher_record;
  student_record.hidden = teacher_record.hidden = compare_hidden,
  student_record.attention_inputs = teacher_record.attention_inputs = compare_attention;
  ForwardContext inner{ctx, nullptr,
                       compare_hidden || compare_attention || balanced ? &student_record : nullptr,
                       f.checkpoint};
  Context plain{ctx.device};  // without a tape: no gradient flows into the teacher
  ForwardContext frozen{plain, nullptr, compare_hidden || compare_attention ? &teacher_record : nullptr};
  const TargetRows with_target(batch.targets);
  const Tensor student = ops::gather_rows(ctx, student_.hidden(inner, batch.inputs), with_target.rows);
  const Tensor teacher = ops::gather_rows(plain, teacher_.hidden(frozen, batch.inputs), with_target.rows);

  sums_.batches += 1;
  Tensor total;
  const auto add = [&](const Tensor& term, float weight, double& sum) {
    sum += static_cast<double>(term.host().f32()[0]);
    const Tensor weighted = ops::scale(ctx, term, weight);
    total = total.defined() ? ops::add(ctx, total, weighted) : weighted;
  };
  if (o_.alpha > 0)
    add(PredictionLoss{student_, teacher_, o_.loss, o_.temperature, o_.beta}(ctx, student, teacher), o_.alpha,
        sums_.teacher);
  if (o_.alpha < 1)
    add(student_.lm_loss(ctx, student, with_target.targets, o_.smoothing), 1.0f - o_.alpha, sums_.hard);
  if (compare_hidden) add(hidden_loss(ctx, student_record, teacher_record), o_.hidden_weight, sums_.hidden);
  if (compare_attention)
    add(attention_loss(ctx, student_record, teacher_record, batch.inputs.source), o_.attention_weight,
        sums_.attention);
  return balanced ? with_balance(ctx, student_.spec(), student_record, total) : total;
}

Result<MicroBatch> DistillTask::train_batch(uint64_t index) {
  MAKAR_TRY(MicroBatch out, data_->train_batch(index));
  makar::check(out.weight == 0 || out.language != nullptr, "distillation needs batches of a language model");
  out.loss = [this, batch = out.language](ForwardContext& f) { return loss(f, *batch); };
  return out;
}

Metrics DistillTask::step_metrics() const {
  const double n = std::max(1.0, sums_.batches);
  Metrics out = data_->step_metrics();
  if (o_.alpha > 0) out["teacher"] = sums_.teacher / n;
  if (o_.alpha < 1) out["hard"] = sums_.hard / n;
  if (o_.hidden_weight > 0) out["hidden"] = sums_.hidden / n;
  if (o_.attention_weight > 0) out["attention"] = sums_.attention / n;
  return out;
}

Result<Metrics> DistillTask::metrics(Device& device) {
  MAKAR_TRY(Metrics out,
            data_->metrics(device));  // first: it may sample the answers of the validation batches
  double rows = 0, kl = 0, teacher_loss = 0, agreed = 0;
  for (uint64_t i = 0; i < data_->validation_batches(); ++i) {
    MAKAR_TRY(const MicroBatch batch, data_->validation_batch(i));
    if (!batch.language) continue;
    const TargetRows with_target(batch.language->targets);
    if (with_target.rows.empty()) continue;
    Context ctx{device};
    ForwardContext f{ctx};
    const Tensor student =
        ops::gather_rows(ctx, student_.hidden(f, batch.language->inputs), with_target.rows);
    const Tensor teacher =
        ops::gather_rows(ctx, teacher_.hidden(f, batch.language->inputs), with_target.rows);
    const auto n = static_cast<int64_t>(with_target.rows.size());
    const int64_t step = std::max<int64_t>(1, PredictionLoss::kMaxLogits / student_.spec().vocab);
    for (int64_t at = 0; at < n; at += step) {
      const int64_t end = std::min(at + step, n);
      const auto rows_in_part = static_cast<double>(end - at);
      const Tensor q = ops::log_softmax(ctx, student_.lm_logits(ctx, student.slice(at, end)));
      const Tensor p = ops::log_softmax(ctx, teacher_.lm_logits(ctx, teacher.slice(at, end)));
      kl += rows_in_part * static_cast<double>(ops::kl_divergence(ctx, q, p).host().f32()[0]);
      const Tensor a = q.host(), b = p.host();
      for (int64_t r = 0; r < end - at; ++r) {
        const float *x = a.f32() + r * a.dim(1), *y = b.f32() + r * a.dim(1);
        agreed += std::max_element(x, x + a.dim(1)) - x == std::max_element(y, y + a.dim(1)) - y;
        teacher_loss -= static_cast<double>(y[with_target.targets[static_cast<size_t>(at + r)]]);
      }
    }
    rows += static_cast<double>(n);
  }
  if (rows == 0) return out;
  out["teacher_kl"] = kl / rows, out["teacher_loss"] = teacher_loss / rows,
  out["teacher_agreement"] = agreed / rows;
  return out;
}

}  // namespace makar

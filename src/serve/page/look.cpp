#include "serve/page/look.h"

#include <cmath>
#include <numeric>

#include "base/cores.h"
#include "infer/logprobs.h"
#include "text/base64.h"

namespace makar {
namespace {

constexpr int64_t kMaxLogitRows = 32;     // per product: all logits of a text may be larger than the model
constexpr int64_t kMaxNamedTokens = 400;  // next tokens listed with text
constexpr int kLogitBins = 64;
constexpr float kAttentionScale = 65535;  // weights are sent as 16-bit fractions
constexpr size_t kMaxMasks = 8;

Json token_json(const ServedModel& model, int64_t id) {
  return {{"id", id},
          {"text", token_at(model.tokens, id)},
          {"special", id >= 0 && model.language.tokenizer().is_special(static_cast<uint32_t>(id))}};
}

Json tokens_json(const ServedModel& model, const std::vector<int64_t>& ids) {
  Json out = Json::array();
  for (const int64_t id : ids) out.push_back(token_json(model, id));
  return out;
}

// The largest logits individually and the rest as a histogram [value, count]: enough to compute the
// distribution at any temperature.
Result<Json> distribution(std::span<const float> logits, int64_t top, const ServedModel& model) {
  MAKAR_TRY(const double entropy_nats, entropy(logits));  // an error if not finite
  std::vector<int64_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  top = std::min(top, static_cast<int64_t>(order.size()));
  const auto at = [&](int64_t id) { return logits[static_cast<size_t>(id)]; };
  std::partial_sort(order.begin(), order.begin() + top, order.end(),
                    [&](int64_t a, int64_t b) { return at(a) != at(b) ? at(a) > at(b) : a < b; });
  Json ids = Json::array(), values = Json::array(), texts = Json::array(), rest = Json::array();
  for (int64_t i = 0; i < top; ++i) {
    const int64_t id = order[static_cast<size_t>(i)];
    ids.push_back(id);
    values.push_back(at(id));
    if (i < kMaxNamedTokens) texts.push_back(token_at(model.tokens, id));
  }
  if (top < static_cast<int64_t>(order.size())) {
    const auto [low, high] = std::minmax_element(order.begin() + top, order.end(),
                                                 [&](int64_t a, int64_t b) { return at(a) < at(b); });
    const double from = at(*low),
                 width = std::max((static_cast<double>(at(*high)) - from) / kLogitBins, 1e-6);
    std::vector<double> sums(kLogitBins, 0);
    std::vector<int64_t> counts(kLogitBins, 0);
    for (auto it = order.begin() + top; it != order.end(); ++it) {
      const auto bin = static_cast<size_t>(std::clamp((at(*it) - from) / width, 0.0, kLogitBins - 1.0));
      sums[bin] += at(*it), ++counts[bin];
    }
    for (size_t i = 0; i < kLogitBins; ++i)
      if (counts[i] > 0) rest.push_back({sums[i] / static_cast<double>(counts[i]), counts[i]});
  }
  return Json{{"vocab", logits.size()},      {"entropy", entropy_nats},   {"ids", std::move(ids)},
              {"logits", std::move(values)}, {"texts", std::move(texts)}, {"rest", std::move(rest)}};
}

struct LookContext {
  const LookRequest& request;
  const ServedModel& model;
  Context& ctx;
  const std::vector<int64_t>& ids;        // token ids of the rows
  const Tensor& hidden;                   // [rows, width]
  std::function<void(int64_t)> set_rows;  // the row count of the next product
  WorkBudget* work;

  Tensor logits(int64_t from, int64_t to) const {
    set_rows(to - from);
    return model.language.model().lm_logits(ctx, hidden.slice(from, to)).host();
  }
};

std::span<const float> row_of(const Tensor& logits, int64_t row) {
  return {logits.f32() + row * logits.dim(1), static_cast<size_t>(logits.dim(1))};
}

// The probability of each token given its prefix, as in /score.
Result<Json> probabilities(const LookContext& l) {
  Json out = Json::array({nullptr});
  const int64_t rows = l.hidden.dim(0);
  for (int64_t from = 0; from + 1 < rows; from += kMaxLogitRows) {
    if (l.work && !l.work->check()) return l.work->error("look");
    const int64_t to = std::min(from + kMaxLogitRows, rows - 1);
    const Tensor logits = l.logits(from, to);
    for (int64_t i = from; i < to; ++i) {
      MAKAR_TRY(const Logprobs scores,
                logprobs(row_of(logits, i - from), l.ids[static_cast<size_t>(i + 1)], 3));
      Json top = Json::array();
      for (const TokenLogprob& t : scores.top)
        top.push_back({{"id", t.id}, {"text", token_at(l.model.tokens, t.id)}, {"logprob", t.logprob}});
      out.push_back({{"logprob", scores.chosen}, {"rank", scores.rank}, {"top", std::move(top)}});
    }
  }
  return out;
}

// The distribution after the last token (causal), or at each mask (masked language model).
Result<Json> next_tokens(const LookContext& l) {
  const ModelSpec& spec = l.model.language.spec();
  std::vector<int64_t> positions;
  if (spec.head.kind == HeadKind::kCausalLm) {
    positions.push_back(l.hidden.dim(0) - 1);
  } else {
    const auto bert_mask = l.model.language.tokenizer().id("[MASK]");
    const auto mask = bert_mask ? bert_mask : l.model.language.tokenizer().id("<mask>");
    for (size_t i = 0; i < l.ids.size() && positions.size() < kMaxMasks; ++i)
      if (mask && l.ids[i] == *mask) positions.push_back(static_cast<int64_t>(i));
  }
  Json out = Json::array();
  for (const int64_t position : positions) {
    const Tensor logits = l.logits(position, position + 1);
    MAKAR_TRY(Json one, distribution(row_of(logits, 0), l.request.top, l.model));
    one["at"] = position;
    out.push_back(std::move(one));
  }
  return out;
}

// Each layer's [heads, rows, keys] as 16-bit fractions in base64.
Json attention_json(const LookRequest& request, const std::vector<std::vector<Tensor>>& maps) {
  Json layers = Json::array(), data = Json::array();
  int64_t heads = 0, rows = 0, keys = 0;
  for (const int64_t layer : request.layers) {
    const Tensor map = maps.at(static_cast<size_t>(layer)).at(0).host();
    heads = map.dim(0), rows = map.dim(1), keys = map.dim(2);
    std::string bytes;
    bytes.reserve(static_cast<size_t>(map.count()) * 2);
    for (int64_t i = 0; i < map.count(); ++i) {
      const auto value =
          static_cast<uint16_t>(std::lround(std::clamp(map.f32()[i], 0.0f, 1.0f) * kAttentionScale));
      bytes.push_back(static_cast<char>(value & 255)), bytes.push_back(static_cast<char>(value >> 8));
    }
    layers.push_back(layer);
    data.push_back(encode_base64(bytes));
  }
  return {{"of", request.of}, {"layers", std::move(layers)}, {"heads", heads},         {"rows", rows},
          {"keys", keys},     {"scale", kAttentionScale},    {"data", std::move(data)}};
}

Json routing_json(const Record& record, const FeedForwardSpec& spec) {
  Json layers = Json::array();
  for (size_t i = 0; i < record.router_probabilities.size(); ++i) {
    const Tensor p = record.router_probabilities[i].host();
    layers.push_back(
        {{"choices", record.router_choices[i]}, {"probabilities", byte_matrix(p.f32(), p.dim(0), p.dim(1))}});
  }
  return {{"experts", spec.experts}, {"per_token", spec.experts_per_token}, {"layers", std::move(layers)}};
}

Json model_json(const ServedModel& model) {
  const ModelSpec& spec = model.language.spec();
  const StackSpec& stack = spec.main();
  Json out = {{"name", model.name},
              {"architecture", spec.architecture},
              {"layers", stack.layers()},
              {"heads", stack.first().attention.heads},
              {"kv_heads", stack.first().attention.kv_heads},
              {"width", stack.width},
              {"vocab", spec.vocab},
              {"experts", stack.routed() ? stack.routed()->experts : 0},
              {"kinds", Json::array()}};
  if (spec.encoder) out["kinds"].push_back("encoder"), out["encoder_layers"] = spec.encoder->layers();
  if (spec.decoder) out["kinds"].push_back("decoder");
  if (spec.is_encoder_decoder()) out["kinds"].push_back("cross");
  return out;
}

}  // namespace

Json byte_matrix(const float* values, int64_t rows, int64_t columns) {
  const int64_t count = rows * columns;
  float low = 0, high = 0;
  for (int64_t i = 0; i < count; ++i) low = std::min(low, values[i]), high = std::max(high, values[i]);
  const float factor = high > low ? 255.0f / (high - low) : 0.0f;
  std::string bytes(static_cast<size_t>(count), '\0');
  for (int64_t i = 0; i < count; ++i) {
    const float scaled = std::isfinite(values[i]) ? (values[i] - low) * factor : 0.0f;
    bytes[static_cast<size_t>(i)] = static_cast<char>(static_cast<uint8_t>(std::lround(scaled)));
  }
  return {{"rows", rows}, {"columns", columns}, {"low", low}, {"high", high}, {"data", encode_base64(bytes)}};
}

Result<Json> look_inside(const LookRequest& request, const ServedModel& served, Device& device,
                         int32_t adapter, WorkBudget* work) {
  const Model& model = served.language.model();
  const ModelSpec& spec = model.spec();
  const bool is_encoder_decoder = spec.encoder && spec.decoder, lm = spec.head.kind == HeadKind::kCausalLm;
  Json out = {{"model", model_json(served)}, {"tokens", tokens_json(served, request.source)}};
  if (is_encoder_decoder) out["target"] = tokens_json(served, request.target);
  Context ctx{device};
  const StackSpec& stack = request.of == "encoder" && spec.encoder ? *spec.encoder : spec.main();
  if (request.positions)
    out["positions"] = look_positions(ctx, model, stack, static_cast<int64_t>(request.source.size()));
  if (!request.next && !request.probabilities && !request.attention && !request.routing) return out;

  Inputs inputs;
  inputs.source.add(request.source);
  if (is_encoder_decoder) inputs.target.add(request.target);
  Record record, encoder_record;
  Record& requested_record = is_encoder_decoder && request.of == "encoder" ? encoder_record : record;
  requested_record.attention = request.attention, requested_record.attention_layers = request.layers;
  ForwardContext f{ctx, nullptr, &record};
  // One adapter index per row, for as many rows as the largest product has.
  const std::vector<int32_t> adapters(
      adapter < 0 ? 0 : std::max(request.source.size(), request.target.size()), adapter);
  const auto set_rows = [&](int64_t count) {
    if (adapter >= 0) ctx.row_adapters = std::span(adapters).first(static_cast<size_t>(count));
  };
  Tensor hidden;
  set_rows(inputs.source.rows());
  if (is_encoder_decoder) {
    ForwardContext encoder_context{ctx, nullptr, &encoder_record};
    const Tensor encoded = model.encode(encoder_context, inputs.source);
    set_rows(inputs.target.rows());
    hidden = model.decode(f, inputs.target, encoded, &inputs.source);
  } else {
    hidden = model.hidden(f, inputs);
  }
  const std::vector<int64_t>& ids = is_encoder_decoder ? request.target : request.source;
  const LookContext look{request, served, ctx, ids, hidden, set_rows, work};
  const bool masked = spec.head.kind == HeadKind::kMaskedLm || spec.head.kind == HeadKind::kPretraining;
  if (request.next && (lm || masked)) {
    MAKAR_TRY(out["next"], next_tokens(look));
  }
  if (request.probabilities && lm) {
    MAKAR_TRY(out["probabilities"], probabilities(look));
  }
  if (request.attention)
    out["attention"] = attention_json(
        request, request.of == "cross" ? requested_record.cross_attentions : requested_record.attentions);
  if (const FeedForwardSpec* routed = spec.main().routed(); request.routing && routed)
    out["routing"] = routing_json(record, *routed);
  return out;
}

bool LookRunner::post(WorkItem work, LookRequest request, const ServedModel& model, int32_t adapter,
                      const EngineLoop* loop, Done done) {
  if (++waiting_ > kMaxWaiting) return --waiting_, false;
  const std::shared_ptr<void> slot(nullptr, [this](void*) { --waiting_; });  // released when done or dropped
  work.is_long = true;
  work.run = [this, slot, cancelled = work.cancelled, request = std::move(request), &model, adapter, loop,
              done = std::move(done)] {
    std::optional<Turns::Turn> turn;
    if (loop && !loop->device().memory().is_host()) {
      turn.emplace(loop->turns());
    } else if (!device_) {
      device_ = std::make_unique<CpuDevice>(std::max(cores().threads / 2, 1));
    }
    WorkBudget budget(WorkBudget::kUnlimited, WorkBudget::Clock::time_point::max(), cancelled);
    auto result = [&]() -> Result<Json> {
      try {
        return look_inside(request, model, turn ? loop->device() : *device_, adapter, &budget);
      } catch (const std::exception& e) {
        return error_of(Error::Kind::kIo, "look", "internal error: {}", e.what());
      }
    }();
    done(std::move(result));
  };
  return worker_.post(std::move(work));
}

}  // namespace makar

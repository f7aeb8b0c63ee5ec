#include "models/inspect.h"

#include <algorithm>
#include <map>

#include "models/match.h"
#include "models/source.h"
#include "models/structure.h"

namespace makar {
namespace {

constexpr int64_t kCacheTokens = 1024;  // tokens for which the cache size is reported
constexpr int64_t kDefaultContext = 1024;

bool is_table(const Parameter& p) {
  return p.name.ends_with(".embed.tokens.weight") || p.name.ends_with(".embed.positions.weight") ||
         p.name.ends_with(".embed.types.weight") || p.name.ends_with(".embed.positions");
}

// Parameters of the experts that a token does not use.
int64_t idle_parameters(const StackSpec& s) {
  int64_t n = 0;
  for (const BlockSpec& b : s.blocks) {
    const FeedForwardSpec& f = b.feed_forward;
    const int64_t matrices = f.gated ? 3 : 2;
    const int64_t per_expert =
        matrices * s.width * f.width + (f.bias ? (matrices - 1) * f.width + s.width : 0);
    n += (f.experts - std::min(f.experts, f.experts_per_token)) * per_expert;
  }
  return n;
}

void count_parameters(const Model& model, Inspection& out) {
  for (const auto& p : model.parameters().all()) {
    if (p->buffer) continue;
    out.parameters += p->shape.count();
    if (is_table(*p)) out.embedding += p->shape.count();
  }
  out.active = out.parameters - idle_parameters(model.spec().main());
}

// Weights of latent attention (DeepSeek): low-rank queries, a shared latent for keys and values.
double latent_weights(double width, const AttentionSpec& a) {
  const LatentSpec& l = *a.latent;
  const auto heads = static_cast<double>(a.heads), q = heads * static_cast<double>(a.head_dim);
  const auto rank = static_cast<double>(l.rank), q_rank = static_cast<double>(l.query_rank),
             rotary = static_cast<double>(a.rope->rotary);
  const auto values = heads * static_cast<double>(l.value_dim);
  return (q_rank > 0 ? q_rank * (width + q) : width * q) + width * (rank + rotary) +
         rank * (q - heads * rotary + values) + values * width;
}

double recurrent_weights(const StackSpec& s, const BlockSpec& b) {
  const auto w = static_cast<double>(s.width);
  if (!b.recurrent) return (b.alignment->score == AlignmentSpec::Score::kDot ? 2 : 3) * w * w;
  const RecurrentSpec& r = *b.recurrent;
  const auto h = static_cast<double>(r.hidden);
  const double gates = r.cell == CellKind::kRnn ? 1 : r.cell == CellKind::kLstm ? 4 : 3;
  const double input = (r.separate ? w / 2 : w) + (r.reads_source ? w : 0);
  return (r.bidirectional ? 2 : 1) * gates * h * (input + h);
}

// Weights in the matrices of a layer that one token is multiplied with.
double layer_weights(const StackSpec& s, const BlockSpec& b) {
  if (b.recurrent || b.alignment) return recurrent_weights(s, b);
  const AttentionSpec& a = b.attention;
  const FeedForwardSpec& f = b.feed_forward;
  const auto w = static_cast<double>(s.width);
  double n = b.mixer    ? w * static_cast<double>(3 * b.mixer->inner)
             : a.latent ? latent_weights(w, a)
                        : w * static_cast<double>(2 * a.heads * a.head_dim + 2 * a.kv_heads * a.head_dim);
  if (b.cross) n += w * static_cast<double>(2 * b.cross->heads * b.cross->head_dim);
  const double expert = w * static_cast<double>(f.width) * (f.gated ? 3 : 2);
  if (f.experts == 0) return n + expert;
  const double shared = w * static_cast<double>(f.shared_width) * (f.gated ? 3 : 2) + (f.shared_gate ? w : 0);
  return n + expert * static_cast<double>(f.experts_per_token) + w * static_cast<double>(f.experts) + shared;
}

int64_t cache_values(const AttentionSpec& a) { return 2 * a.kv_heads * a.head_dim; }

// Weights that compute the cross-attention keys and values of one encoder token.
double cross_weights(const StackSpec& s) {
  double n = 0;
  for (const BlockSpec& b : s.blocks)
    if (b.cross) n += static_cast<double>(s.width * cache_values(*b.cross));
  return n;
}

double embedding_weights(const StackSpec& s) {
  double n = 0;
  if (s.embedding.project) n += static_cast<double>(s.embedding.width * s.width);
  if (const auto& p = s.embedding.patches)
    n += static_cast<double>(s.width * p->channels) * static_cast<double>(p->patch * p->patch);
  return n + static_cast<double>(s.project_out * s.width);
}

// Only the part of the head that runs for every token; a head that runs once per sequence is not counted.
double head_weights(const ModelSpec& spec) {
  const HeadSpec& h = spec.head;
  const auto width = static_cast<double>(spec.main().width);
  switch (h.kind) {
    case HeadKind::kCausalLm:
    case HeadKind::kMaskedLm:
    case HeadKind::kBidirectionalLm:
    case HeadKind::kPretraining: {
      const double in =
          h.transform ? static_cast<double>(h.transform_width)
                      : (spec.main().project_out > 0 ? static_cast<double>(spec.main().project_out) : width);
      return in * static_cast<double>(spec.vocab) +
             (h.transform ? width * static_cast<double>(h.transform_width) : 0);
    }
    case HeadKind::kTokenClass:
      return width * static_cast<double>(h.labels);
    case HeadKind::kReplacedToken:
      return width * (width + 1);
    case HeadKind::kQuestion:
      return width * 2;
    default:
      return 0;
  }
}

// Operations per token: 2 per multiply-add, for the scores and for the weighted sum of values.
double attention_work(const StackSpec& s, int64_t context) {
  double work = 0;
  for (const BlockSpec& b : s.blocks) {
    if (b.recurrent || b.mixer) continue;
    const AttentionSpec& a = b.attention;
    const int64_t keys = a.window > 0 ? std::min(a.window, context) : context;
    work += 4.0 * static_cast<double>(a.heads * a.head_dim) * static_cast<double>(keys);
    if (b.cross) work += 4.0 * static_cast<double>(b.cross->heads * b.cross->head_dim * context);
  }
  return work;
}

void count_costs(const ModelSpec& spec, int64_t requested, Inspection& out) {
  out.context = requested > 0 ? requested : spec.max_positions > 0 ? spec.max_positions : kDefaultContext;
  if (spec.main().embedding.patches) out.context = spec.image_rows();
  for (const auto* stack : {&spec.encoder, &spec.decoder}) {
    if (!*stack) continue;
    const StackSpec& s = **stack;
    double weights = embedding_weights(s);
    for (const BlockSpec& b : s.blocks) weights += layer_weights(s, b);
    if (stack == &spec.encoder && spec.decoder) weights += cross_weights(*spec.decoder);
    if (&s == &spec.main()) weights += head_weights(spec);
    out.costs.push_back({s.name, 2 * weights, attention_work(s, out.context)});
  }
  if (!spec.decoder) return;
  for (const BlockSpec& b : spec.decoder->blocks) {
    if (!b.mixer) out.cache_values += cache_values(b.attention);
    if (b.cross) out.cross_cache_values += cache_values(*b.cross);
  }
}

void read_files(const WeightFiles& files, Inspection& out) {
  out.place = files.place();
  out.files_bytes = static_cast<int64_t>(files.total_bytes());
  std::map<std::string, int64_t> counts;
  for (const auto& name : files.names()) counts[files.type_of(name)] += files.entry(name)->shape.count();
  out.dtypes.assign(counts.begin(), counts.end());
  std::stable_sort(out.dtypes.begin(), out.dtypes.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
}

}  // namespace

Result<Inspection> inspect_model(const std::string& folder, const InspectOptions& options) {
  MAKAR_TRY(const ModelSource source, ModelSource::open(folder));
  MAKAR_TRY(const Family* family, find_family(source.config));
  MAKAR_TRY(ModelSpec spec, family->read(source.config));
  Inspection out;
  out.folder = folder;
  std::vector<StructureLeaf> leaves;
  auto files = source.weights();
  if (!files.ok() && WeightFiles::present(folder)) return files.error();
  if (files.ok()) MAKAR_RETURN_IF_ERROR(check_depth(spec, source.config, *files));
  const LoadedModel loaded{family, std::make_unique<Model>(std::move(spec))};
  if (files.ok()) {
    MAKAR_TRY(const auto matched, match_weights(loaded, *files));
    for (const auto& m : matched) {
      const auto* entry = files->entry(m.name);
      leaves.push_back({m.name, entry->shape, makar::name(entry->dtype)});
    }
    read_files(*files, out);
  } else {
    out.warning = files.error().text();
    for (const auto& slice : expand(family->names(loaded.model->spec()), loaded.model->parameters()))
      if (!slice.parameters[0]->optional) leaves.push_back({slice.tensor_name, slice.shape(), ""});
  }
  out.spec = loaded.model->spec();
  count_parameters(*loaded.model, out);
  count_costs(out.spec, options.context, out);
  const std::pair<const char*, double> precisions[] = {
      {"f32", 4}, {"f16", 2}, {"bf16", 2}, {"q8_0", 34.0 / 32}, {"q4_0", 18.0 / 32}};
  for (const auto& [name, bytes] : precisions)
    out.memory.push_back({name, bytes, bytes * static_cast<double>(out.parameters)});
  out.structure = make_structure(out.spec.architecture, leaves);
  return out;
}

namespace {

Json tree_json(const StructureNode& node) {
  Json json = {{"name", node.name}, {"parameters", node.parameters}};
  if (node.repeat > 1) json["repeat"] = node.repeat;
  if (node.tensor) {
    json["shape"] = std::vector<int64_t>(node.shape.begin(), node.shape.end());
    if (!node.dtype.empty()) json["dtype"] = node.dtype;
  }
  for (const auto& c : node.children) json["children"].push_back(tree_json(c));
  return json;
}

Json layers_json(const StackSpec& s) {
  const AttentionSpec& a = s.first().attention;
  Json json = {{"layers", s.layers()},   {"width", s.width},
               {"heads", a.heads},       {"kv_heads", a.kv_heads},
               {"head_dim", a.head_dim}, {"feed_forward_width", s.first().feed_forward.width}};
  if (const FeedForwardSpec* f = s.routed())
    json["experts"] = f->experts, json["experts_per_token"] = f->experts_per_token;
  if (s.has_window())
    for (const BlockSpec& b : s.blocks) json["windows"].push_back(b.attention.window);
  return json;
}

}  // namespace

Json to_json(const Inspection& i) {
  const ModelSpec& spec = i.spec;
  Json json = {{"model", i.folder}, {"family", spec.family}, {"architecture", spec.architecture}};
  if (!i.warning.empty()) json["warning"] = i.warning;
  json["parameters"] = {{"total", i.parameters}, {"active", i.active}, {"embedding", i.embedding}};
  json["dtypes"] = Json::object();
  for (const auto& [name, count] : i.dtypes) json["dtypes"][name] = count;
  json["weights_bytes"] = i.files_bytes;
  for (const auto& p : i.memory) json["memory_bytes"][p.name] = p.bytes;
  json["cache_bytes_per_1024_tokens"] = {{"f32", i.cache_values * kCacheTokens * 4},
                                         {"f16", i.cache_values * kCacheTokens * 2}};
  if (i.cross_cache_values > 0)
    json["cross_cache_bytes_per_1024_tokens"] = {{"f32", i.cross_cache_values * kCacheTokens * 4},
                                                 {"f16", i.cross_cache_values * kCacheTokens * 2}};
  json["flops_per_token"] = {{"context", i.context}};
  for (const auto& c : i.costs)
    json["flops_per_token"][c.stack] = {
        {"products", c.products}, {"attention", c.attention}, {"total", c.total()}};
  json["vocabulary"] = spec.vocab;
  json["max_positions"] = spec.max_positions > 0 ? Json(spec.max_positions) : Json();
  Json tokens = Json::object();
  for (const auto& [name, id] :
       {std::pair("bos", spec.bos), {"pad", spec.pad}, {"decoder_start", spec.decoder_start}})
    if (id >= 0) tokens[name] = id;
  if (!spec.eos.empty()) tokens["eos"] = spec.eos;
  json["special_tokens"] = tokens;
  if (spec.encoder) json["encoder"] = layers_json(*spec.encoder);
  if (spec.decoder) json["decoder"] = layers_json(*spec.decoder);
  json["structure"] = tree_json(i.structure);
  return json;
}

}  // namespace makar

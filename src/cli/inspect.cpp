// makar inspect: a model's structure, sizes and costs, without reading its weights.
#include "models/inspect.h"

#include <fmt/format.h>

#include "base/utf8.h"
#include "cli/inspect_attention.h"
#include "cli/inspect_positions.h"
#include "cli/model_options.h"
#include "cli/model_path.h"
#include "cli/run.h"

namespace makar {
namespace {

constexpr int64_t kCacheTokens = 1024;  // the size of the cache is printed for this many tokens

std::string grouped(int64_t n) {  // 1,234,567
  std::string text = std::to_string(n);
  for (int64_t at = static_cast<int64_t>(text.size()) - 3; at > (n < 0 ? 1 : 0); at -= 3)
    text.insert(static_cast<size_t>(at), ",");
  return text;
}

// Three digits and a unit: 1.24 G.
std::string scaled(double value, double step, std::initializer_list<const char*> units) {
  auto unit = units.begin();
  while (value >= step && unit + 1 != units.end()) value /= step, ++unit;
  if (unit == units.begin() || value >= 100) return fmt::format("{:.0f} {}", value, *unit);
  return value >= 10 ? fmt::format("{:.1f} {}", value, *unit) : fmt::format("{:.2f} {}", value, *unit);
}
std::string bytes(double n) { return scaled(n, 1024, {"B", "KiB", "MiB", "GiB", "TiB", "PiB"}); }
std::string flops(double n) { return scaled(n, 1000, {"flop", "kflop", "Mflop", "Gflop", "Tflop", "Pflop"}); }

struct ModuleRow {
  std::string name, shape, count;
};

std::string padded(const std::string& text, size_t width) {
  return text + std::string(width > count_code_points(text) ? width - count_code_points(text) : 0, ' ');
}

std::string tensor_text(const StructureNode& node) {
  return node.shape.text() + (node.dtype.empty() ? "" : " " + node.dtype);
}

// A module that contains only tensors is printed on one line: the shape of its weight, then the other tensors
// by name.
bool is_leaf_module(const StructureNode& node) {
  for (const auto& c : node.children)
    if (!c.tensor || c.repeat > 1) return false;
  return !node.children.empty();
}

std::string shape_text(const StructureNode& node) {
  if (node.tensor) return tensor_text(node);
  std::string text;
  for (const auto& c : node.children)
    text += (text.empty() ? "" : ", ") + (c.name == "weight" ? "" : c.name + " ") + tensor_text(c);
  return text;
}

void add_lines(const StructureNode& node, const std::string& indent, std::vector<ModuleRow>& lines) {
  for (size_t i = 0; i < node.children.size(); ++i) {
    const StructureNode& c = node.children[i];
    const bool last = i + 1 == node.children.size(), one_line = c.tensor || is_leaf_module(c);
    std::string name = indent + (last ? "└─ " : "├─ ") + c.name;
    if (c.repeat > 1) name += fmt::format("  x{}", c.repeat);
    lines.push_back(
        {name, one_line ? shape_text(c) : "", grouped(c.parameters) + (c.repeat > 1 ? " each" : "")});
    if (!one_line) add_lines(c, indent + (last ? "   " : "│  "), lines);
  }
}

void print_tree(const StructureNode& root) {
  std::vector<ModuleRow> lines = {{root.name, "", grouped(root.parameters)}};
  add_lines(root, "", lines);
  size_t name = 0, shape = 0, count = 0;  // widths of the columns
  for (const ModuleRow& l : lines) {
    name = std::max(name, count_code_points(l.name)), shape = std::max(shape, count_code_points(l.shape));
    count = std::max(count, l.count.find(' ') == l.count.npos ? l.count.size() : l.count.find(' '));
  }
  shape = std::min<size_t>(shape, 60);  // longer shapes shift the last column
  for (const ModuleRow& l : lines) {
    const size_t digits = std::min(l.count.find(' '), l.count.size());
    fmt::print("{}  {}  {}{}\n", padded(l.name, name), padded(l.shape, shape),
               std::string(count - digits, ' '), l.count);
  }
}

void print_fact(const char* name, const std::string& value) { fmt::print("{:<14}{}\n", name, value); }

std::string stack_text(const StackSpec& s) {
  const AttentionSpec& a = s.first().attention;
  const FeedForwardSpec& f = s.routed() ? *s.routed() : s.first().feed_forward;
  std::string text =
      fmt::format("{} layers, width {}, {} heads of {}", s.layers(), s.width, a.heads, a.head_dim);
  if (a.kv_heads != a.heads) text += fmt::format(" ({} key/value)", a.kv_heads);
  text += fmt::format(", feed-forward {}{}", f.gated ? "gated " : "", f.width);
  if (f.experts > 0) text += fmt::format(", {} of {} experts", f.experts_per_token, f.experts);
  int64_t windowed = 0, window = 0;
  for (const BlockSpec& b : s.blocks)
    if (b.attention.window > 0) ++windowed, window = b.attention.window;
  if (windowed > 0) text += fmt::format(", window of {} in {} layers", window, windowed);
  return text;
}

std::string share(int64_t part, int64_t total) {
  return total > 0 ? fmt::format("{:.1f}%", 100.0 * static_cast<double>(part) / static_cast<double>(total))
                   : "";
}

void print_sizes(const Inspection& i) {
  print_fact("parameters",
             fmt::format("{} ({})", grouped(i.parameters),
                         scaled(static_cast<double>(i.parameters), 1000, {"", "k", "M", "B", "T"})));
  if (i.active != i.parameters)
    print_fact("  active",
               fmt::format("{} ({}) per token", grouped(i.active), share(i.active, i.parameters)));
  print_fact("  embedding", fmt::format("{} ({})", grouped(i.embedding), share(i.embedding, i.parameters)));
  std::string types;
  for (const auto& [name, count] : i.dtypes)
    types += fmt::format("{}{}", types.empty() ? "" : ", ",
                         i.dtypes.size() == 1 ? name : fmt::format("{} ({})", name, grouped(count)));
  if (!types.empty())
    print_fact("dtype",
               fmt::format("{}, {} in {}", types, bytes(static_cast<double>(i.files_bytes)), i.place));
  std::string memory;
  for (const auto& p : i.memory)
    if (p.name != "bf16")
      memory += fmt::format("{}{} {}", memory.empty() ? "" : "   ", p.name == "f16" ? "f16/bf16" : p.name,
                            bytes(p.bytes));
  print_fact("weights", memory);
  const auto cache = [](int64_t values, const char* which) {
    const auto n = static_cast<double>(values * kCacheTokens);
    return fmt::format("f32 {}   f16 {}   per {} tokens {}", bytes(4 * n), bytes(2 * n), kCacheTokens, which);
  };
  if (i.cache_values > 0)
    print_fact("cache", cache(i.cache_values, i.cross_cache_values > 0 ? "generated" : "of context"));
  if (i.cross_cache_values > 0) print_fact("", cache(i.cross_cache_values, "of the source"));
  for (const auto& c : i.costs)
    print_fact(&c == &i.costs[0] ? "work/token" : "",
               fmt::format("{}{} ({} in matrix products, {} in attention over {} tokens)",
                           i.costs.size() > 1 ? c.stack + " " : "", flops(c.total()), flops(c.products),
                           flops(c.attention), grouped(i.context)));
}

void print_inspection(const Inspection& i) {
  const ModelSpec& spec = i.spec;
  print_fact("model", i.folder);
  print_fact("family", fmt::format("{}, {}", spec.family, spec.architecture));
  if (spec.encoder) print_fact(spec.decoder ? "encoder" : "stack", stack_text(*spec.encoder));
  if (spec.decoder) print_fact(spec.encoder ? "decoder" : "stack", stack_text(*spec.decoder));
  if (spec.vocab > 0) print_fact("vocabulary", grouped(spec.vocab));
  if (!spec.main().embedding.patches)
    print_fact("context", spec.max_positions > 0 ? grouped(spec.max_positions) : "no limit");
  if (const auto& p = spec.main().embedding.patches)
    print_fact("image", fmt::format("{} x {} x {}, patches of {}, {} tokens", p->channels, p->image_height,
                                    p->image_width, p->patch, i.context));
  if (spec.head.labels > 0) print_fact("labels", grouped(spec.head.labels));
  std::vector<std::string> tokens;
  for (const auto& [name, id] :
       {std::pair("bos", spec.bos), {"pad", spec.pad}, {"decoder start", spec.decoder_start}})
    if (id >= 0) tokens.push_back(fmt::format("{} {}", name, id));
  if (!spec.eos.empty()) tokens.push_back(fmt::format("eos {}", fmt::join(spec.eos, ", ")));
  if (!tokens.empty()) print_fact("special ids", fmt::format("{}", fmt::join(tokens, "   ")));
  fmt::print("\n");
  print_sizes(i);
  fmt::print("\n");
  print_tree(i.structure);
  const bool lm = spec.head.kind == HeadKind::kCausalLm || spec.head.kind == HeadKind::kMaskedLm ||
                  spec.head.kind == HeadKind::kPretraining;
  if (lm && spec.head.tied) fmt::print("\nThe output matrix is the token embedding (tied).\n");
}

}  // namespace

int run_inspect(const std::vector<std::string>& arguments) {
  std::string model;
  int64_t context = 0;
  bool json = false;
  AttentionView view;
  PositionView positions;
  Options options(
      "inspect",
      "Show a model's structure, sizes and costs, without reading its weights; the attention of one head on "
      "a text; or how it tells positions apart.",
      "makar inspect MODEL");
  declare_model(options, model, "MODEL");
  options.group("Output");
  options.add("-c --context --ctx-size", &context,
              "context length for which the work per token is computed; 0 uses the model's own", "N");
  options.add("--json", &json, "print one JSON object");
  options.group("Attention");
  options.add("--attention", &view.text,
              "show what the tokens of this text attend to, as a heat map of one head", "TEXT");
  options.add("--layer", &view.layer, "the layer of --attention, from 0; -1 searches all layers", "N");
  options.add("--head", &view.head,
              "the head of --attention, from 0; -1 for the one in which the last token attends most to a "
              "token other than itself and the first",
              "N");
  options.group("Positions");
  options.add("--positions", &positions.positions,
              "show how the model tells this many positions apart: dot products and distances of every pair, "
              "or the bias of --head (0)",
              "N");
  options.add("--svg", &positions.svg, "also write the pictures of --positions to this file", "FILE");
  declare_threads(options, view.threads);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (context < 0 || context > (int64_t{1} << 40))
    return report(error_at("--context", "must be 0 to 2^40, got {}", context)), 2;
  if (!view.text.empty()) {
    const Status printed = print_attention(resolve_model(model), view, json);
    return printed.ok() ? 0 : report(printed.error());
  }
  if (options.given("--positions")) {
    if (view.layer != -1)
      return report(error_at("--layer", "needs --attention TEXT; --positions shows all layers")), 2;
    positions.head = std::max<int64_t>(0, view.head);
    const Status printed = print_positions(resolve_model(model), positions, json);
    return printed.ok() ? 0 : report(printed.error());
  }
  if (!positions.svg.empty()) return report(error_at("--svg", "needs --positions N")), 2;
  if (view.layer != -1 || view.head != -1)
    return report(error_at(view.layer != -1 ? "--layer" : "--head", "needs --attention TEXT")), 2;
  const auto inspection = inspect_model(resolve_model(model), {context});
  if (!inspection.ok()) return report(inspection.error());
  if (!inspection->warning.empty()) warn(inspection->warning + "; showing what config.json declares");
  if (json)
    fmt::print("{}\n", dump(to_json(*inspection), 2));
  else
    print_inspection(*inspection);
  return 0;
}

}  // namespace makar

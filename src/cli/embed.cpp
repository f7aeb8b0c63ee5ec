// makar embed: texts to vectors.
#include "llm/embed.h"

#include <fmt/format.h>

#include "cli/model_options.h"
#include "cli/run.h"
#include "cli/tokenizer_options.h"

namespace makar {
namespace {

Result<Pooling> parse_pooling(const std::string& name) {
  if (name == "mean") return Pooling::kMean;
  if (name == "cls" || name == "first") return Pooling::kFirst;
  if (name == "last") return Pooling::kLast;
  return error_at("--pooling", "expected mean, cls or last, got '{}'", name);
}

std::string vector_line(const float* row, int64_t width, bool json) {
  std::string out = json ? "{\"embedding\":[" : "";
  for (int64_t i = 0; i < width; ++i) out += fmt::format("{}{}", i ? (json ? "," : " ") : "", row[i]);
  return out + (json ? "]}\n" : "\n");
}

}  // namespace

int run_embed(const std::vector<std::string>& arguments) {
  ModelOptions model;
  std::vector<std::string> texts, files;
  std::string pooling;
  bool raw = false, json = false;
  Options options("embed", "Vectors of texts, for search and comparison: one line a text.",
                  "makar embed -m MODEL \"hello world\"");
  model.declare(options);
  options.positional("TEXTS", &texts, "texts; lines of standard input without any").required = false;
  options.add("-f --file", &files, "read a text a line from a file", "FILE");
  options.add("--pooling", &pooling, "mean, cls or last; what the model's folder says without it", "KIND");
  options.add("--no-normalize", &raw, "leave the vectors as long as they are");
  options.add("--json --jsonl", &json, "print {\"embedding\"} lines");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  ThreadPool pool(static_cast<int>(model.threads));
  const auto language = open_model(model, pool);
  if (!language.ok()) return report(language.error());
  if (!language->has_tokenizer())
    return report(error_of(Error::Kind::kNotFound, model.model, "has no tokenizer"));
  auto o = embed_options(model.model, *language);
  if (!o.ok()) return report(o.error());
  if (!pooling.empty()) {
    const auto kind = parse_pooling(pooling);
    if (!kind.ok()) return report(kind.error()), 2;
    o->pooling = *kind;
  }
  o->normalize = !raw;
  Engine engine(language->model(), pool, Embedder::engine_options());
  const auto print = [&](const std::vector<std::string>& batch) -> Status {
    MAKAR_TRY(const Tensor vectors, embed(engine, *language, batch, *o));
    for (int64_t i = 0; i < vectors.dim(0); ++i)
      if (!print_out(vector_line(vectors.f32() + i * vectors.dim(1), vectors.dim(1), json))) break;
    return Done{};
  };
  Status status = Done{};
  if (!texts.empty()) {
    status = print(texts);
  } else {
    Status inner = Done{};
    status = each_lines(files, [&](const std::vector<std::string_view>& lines, size_t) {
      inner = print({lines.begin(), lines.end()});
      return inner.ok();
    });
    if (status.ok()) status = inner;
  }
  return status.ok() ? 0 : report(status.error());
}

}  // namespace makar

// makar serve: a model behind HTTP.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "base/resident.h"
#include "cli/model_options.h"
#include "cli/run.h"
#include "serve/service.h"

namespace makar {
namespace {

struct ServeCommand {
  ModelOptions model;
  EngineFlags engine;
  HttpOptions http;
  std::string key, alias, store = "auto", runs = "runs";
  int64_t port = 8080, parallel = 64, queue = 128, timeout = 600, drain = 30, predict = 4096;
  SamplerOptions sampler;
  bool log = false;
};

Status check_command(const ServeCommand& c) {
  const auto within = [](const char* flag, int64_t value, int64_t low, int64_t high) -> Status {
    if (value >= low && value <= high) return Done{};
    return error_at(flag, "must be {} to {}, got {}", low, high, value);
  };
  MAKAR_CHECK_OK(within("--port", c.port, 0, 65535));
  MAKAR_CHECK_OK(within("--parallel", c.parallel, 1, 4096));
  MAKAR_CHECK_OK(within("--queue", c.queue, 0, 1 << 20));
  MAKAR_CHECK_OK(within("--timeout", c.timeout, 1, 86400));
  MAKAR_CHECK_OK(within("--drain-time", c.drain, 0, 86400));
  MAKAR_CHECK_OK(within("--n-predict", c.predict, 1, 1 << 20));
  if (c.key.empty() && !is_loopback(c.http.host))
    return error_at("--host", "{} can be reached from other machines; set --api-key, or serve 127.0.0.1",
                    c.http.host);
  return check_sampler(c.sampler);
}

// Where nobody says how much memory the process may hold: a quarter of the machine's beside the weights.
double default_budget() {
  const double machine =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  return (static_cast<double>(resident_memory().now) + machine / 4) / 1e6;
}

std::string served_name(const std::string& path) {
  const auto clean = std::filesystem::path(path).lexically_normal();
  const auto name = clean.has_filename() ? clean.filename() : clean.parent_path().filename();
  return name.empty() ? "makar" : name.string();
}

void print_welcome(const ServeCommand& c, const std::string& name, uint16_t port, bool chat) {
  const bool v6 = c.http.host.find(':') != std::string::npos;
  const std::string url = fmt::format("http://{}:{}", v6 ? "[" + c.http.host + "]" : c.http.host, port);
  const std::string route = chat ? "/v1/chat/completions" : "/v1/completions";
  const std::string body =
      chat ? R"({"messages":[{"role":"user","content":"Hello"}]})" : R"({"prompt":"Hello"})";
  fmt::print(
      "{} is served at {}\n\n  curl {}{}{} -d '{}'\n\nCtrl-C stops it: what is under way is finished, a "
      "second Ctrl-C does not wait.\n",
      name, url, url, route, c.key.empty() ? "" : " -H \"Authorization: Bearer $MAKAR_API_KEY\"", body);
  std::fflush(stdout);
}

}  // namespace

int run_serve(const std::vector<std::string>& arguments) {
  ServeCommand c;
  c.sampler.temperature = 1;
  Options options("serve",
                  "A model behind HTTP, for clients of OpenAI, Anthropic and Ollama. Only this machine is "
                  "served unless a key is set.",
                  "makar serve -m MODEL");
  c.model.declare(options);
  c.model.declare_chat(options);
  options.add("--host", &c.http.host, "address to listen at", "ADDRESS");
  options.add("--port", &c.port, "port; 0 takes any that is free", "N");
  options.add("--api-key", &c.key, "clients must show this key", "KEY");
  options.add("-a --alias --served-model-name", &c.alias,
              "what clients call the model; its folder's name without it", "NAME");
  options.add("-np --parallel --max-num-seqs", &c.parallel, "answers written at a time", "N");
  options.add("--queue", &c.queue, "requests that may wait beside them; further ones get 429", "N");
  options.add("--timeout", &c.timeout, "seconds a request may take", "N");
  options.add("--drain-time", &c.drain, "seconds that what is under way may still take after SIGTERM", "N");
  options.add("-n --n-predict --max-tokens", &c.predict, "tokens of an answer where a chat does not say",
              "N");
  options.add("--store", &c.store,
              "where the page keeps conversations: a file, none, or auto for one in the user's data folder",
              "FILE");
  options.add("--runs", &c.runs, "the folder of trainings that the page shows", "FOLDER");
  options.add("--log", &c.log, "a JSON line a request on standard error");
  c.engine.declare(options);
  add_sampler_options(options, c.sampler);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (const Status status = check_command(c); !status.ok()) return report(status.error()), 2;
  ThreadPool pool(static_cast<int>(c.model.threads));
  const auto budget = c.engine.budget();
  if (!budget.ok()) return report(budget.error()), 2;
  const auto language = open_model(c.model, pool, *budget);
  if (!language.ok()) return report(language.error());
  if (!language->has_tokenizer())
    return report(error_of(Error::Kind::kNotFound, c.model.model, "has no tokenizer; a server needs one"));
  if (c.engine.mem_budget == 0) c.engine.mem_budget = default_budget();
  auto engine = c.engine.resolve(language->model());
  if (!engine.ok()) return report(engine.error()), 2;
  engine->max_branches = c.parallel;
  const std::string name = c.alias.empty() ? served_name(c.model.model) : c.alias;
  auto model = ServedModel::of(*language, engine->context, name, c.model.model);
  if (!model.ok()) return report(model.error());
  ServeOptions serve;
  serve.key = c.key, serve.parallel = c.parallel, serve.queue = c.queue;
  serve.time = std::chrono::seconds(c.timeout);
  serve.defaults.max_new_tokens = c.predict, serve.defaults.sampler = c.sampler;
  serve.seed_given = options.given("--seed");
  const auto embed = embed_options(c.model.model, *language);
  if (!embed.ok()) return report(embed.error());
  serve.embed = *embed;
  serve.page = {c.store == "auto" ? default_store_path() : c.store, c.runs};
  if (c.log) serve.log = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  c.http.port = static_cast<uint16_t>(c.port), c.http.drain_time = std::chrono::seconds(c.drain);
  const bool chat = language->chat_template().has_value();
  // The service goes first: whoever still waits for an answer is let go while the server is there.
  std::unique_ptr<HttpServer> server;
  Service service(std::move(*model), pool, *engine, std::move(serve));
  if (c.store != "auto")
    if (const Status opened = service.open_store(); !opened.ok()) return report(opened.error());
  auto listening = HttpServer::listen(service, c.http);
  if (!listening.ok()) return report(listening.error());
  server = std::move(*listening);
  print_welcome(c, name, server->port(), chat);
  server->run([&] {
    service.drain();
    fmt::print(stderr, "makar: stopping when what is under way is answered\n");
  });
  return 0;
}

}  // namespace makar

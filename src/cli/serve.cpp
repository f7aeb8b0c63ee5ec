// makar serve: a model behind HTTP.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "cli/run.h"
#include "cli/serve_models.h"
#include "serve/service.h"

namespace makar {
namespace {

struct ServeCommand {
  ServedModelOptions models;
  HttpOptions http;
  std::vector<std::string> keys, origins;
  std::string key_file, store = "auto", runs = "runs";
  int64_t port = 8080, queue = 128, timeout = 600, drain = 30, client = 30, predict = 4096;
  RateLimit::Limits limits;
  SamplerOptions sampler;
  bool log = false;
  std::string files;
  double max_file_size = 100;  // MB
};

Status check_command(const ServeCommand& c) {
  const auto within = [](const char* flag, int64_t value, int64_t low, int64_t high) -> Status {
    if (value >= low && value <= high) return Done{};
    return error_at(flag, "must be {} to {}, got {}", low, high, value);
  };
  MAKAR_CHECK_OK(within("--port", c.port, 0, 65535));
  MAKAR_CHECK_OK(within("--parallel", c.models.parallel, 1, 4096));
  MAKAR_CHECK_OK(within("--queue", c.queue, 0, 1 << 20));
  MAKAR_CHECK_OK(within("--timeout", c.timeout, 1, 86400));
  MAKAR_CHECK_OK(within("--drain-time", c.drain, 0, 86400));
  MAKAR_CHECK_OK(within("--client-time", c.client, 1, 3600));
  MAKAR_CHECK_OK(within("--rate-limit", c.limits.requests, 0, int64_t{1} << 40));
  MAKAR_CHECK_OK(within("--token-rate-limit", c.limits.tokens, 0, int64_t{1} << 40));
  MAKAR_CHECK_OK(within("--n-predict", c.predict, 1, 1 << 20));
  if (c.http.tls_certificate.empty() != c.http.tls_key.empty())
    return error_at(c.http.tls_key.empty() ? "--tls-cert" : "--tls-key",
                    "a certificate and its key are needed together: --tls-cert FILE --tls-key FILE");
  if (c.keys.empty() && c.key_file.empty() && !is_loopback(c.http.host))
    return error_at("--host", "{} can be reached from other machines; set --api-key, or serve 127.0.0.1",
                    c.http.host);
  if (!(c.max_file_size > 0 && c.max_file_size <= 200))
    return error_at("--max-file-size", "must be above 0 and at most 200, got {}", c.max_file_size);
  return check_sampler(c.sampler);
}

// The folder of the user's data, as the XDG directories say; empty where there is none.
std::string default_files() {
  const char* data = std::getenv("XDG_DATA_HOME");
  if (data && data[0] == '/') return std::string(data) + "/makar/files";
  const char* home = std::getenv("HOME");
  return home && home[0] == '/' ? std::string(home) + "/.local/share/makar/files" : "";
}

// The store, or none and why. A folder that was asked for must be there for us; one that was not may be in
// use.
Result<std::unique_ptr<FileStore>> open_files(const ServeCommand& c, std::string& why) {
  const std::string folder = c.files.empty() ? default_files() : c.files;
  why = "the server keeps no files: it was started with --files none";
  if (folder == "none") return std::unique_ptr<FileStore>();
  FileLimits limits;
  limits.bytes = static_cast<size_t>(c.max_file_size * 1e6);
  auto store = folder.empty() ? Result<std::unique_ptr<FileStore>>(error_at("--files", "HOME is not set"))
                              : FileStore::open(folder, limits);
  if (store.ok() || !c.files.empty()) return store;
  why = "the server keeps no files: " + store.error().message;
  return std::unique_ptr<FileStore>();
}

// A request that this kind of model answers: its route and its body.
std::pair<std::string, std::string> first_request(const LanguageModel& language) {
  const HeadKind head = language.spec().head.kind;
  if (head == HeadKind::kSequenceClass) return {"/v1/moderations", R"({"input":"Hello"})"};
  if (head != HeadKind::kCausalLm) return {"/v1/embeddings", R"({"input":"Hello"})"};
  if (language.chat_template())
    return {"/v1/chat/completions", R"({"messages":[{"role":"user","content":"Hello"}]})"};
  return {"/v1/completions", R"({"prompt":"Hello"})"};
}

void print_welcome(const ServeCommand& c, const std::string& name, uint16_t port,
                   const LanguageModel& language) {
  const bool v6 = c.http.host.find(':') != std::string::npos;
  const std::string url = fmt::format("{}://{}:{}", c.http.tls_key.empty() ? "http" : "https",
                                      v6 ? "[" + c.http.host + "]" : c.http.host, port);
  const auto [route, body] = first_request(language);
  fmt::print(
      "{} is served at {}\n\n  curl {}{}{} -d '{}'\n\nCtrl-C stops it: what is under way is finished, a "
      "second Ctrl-C does not wait.\n",
      name, url, url, route,
      c.keys.empty() && c.key_file.empty() ? "" : " -H \"Authorization: Bearer $MAKAR_API_KEY\"", body);
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
  c.models.declare(options);
  options.add("--host", &c.http.host, "address to listen at", "ADDRESS");
  options.add("--port", &c.port, "port; 0 takes any that is free", "N");
  options.add("--api-key", &c.keys,
              "clients must show this key, or one of several (a,b, or the option again)", "KEY");
  options.add("--api-key-file", &c.key_file, "keys, one a line, with a name for the log after each", "FILE");
  options.add("--rate-limit", &c.limits.requests, "requests a minute for each key (or address); 0: no limit",
              "N");
  options.add("--token-rate-limit", &c.limits.tokens,
              "tokens read and written a minute for each key (or address); 0: no limit", "N");
  options.add("--cors", &c.origins, "pages of this origin may call, too ('*': of any); may be repeated",
              "ORIGIN");
  options.add("--tls-cert --ssl-cert-file", &c.http.tls_certificate, "speak TLS, with this certificate (PEM)",
              "FILE");
  options.add("--tls-key --ssl-key-file", &c.http.tls_key, "the certificate's private key (PEM)", "FILE");
  options.add("-np --parallel --max-num-seqs", &c.models.parallel, "answers written at a time", "N");
  options.add("--queue", &c.queue, "requests that may wait beside them; further ones get 429", "N");
  options.add("--timeout", &c.timeout, "seconds a request may take", "N");
  options.add("--drain-time", &c.drain, "seconds that what is under way may still take after SIGTERM", "N");
  options.add("--client-time", &c.client,
              "seconds a client may take to send headers (twice that for a body) or to read what is sent",
              "N");
  options.add("-n --n-predict --max-tokens", &c.predict, "tokens of an answer where a chat does not say",
              "N");
  options.add(
      "--files", &c.files,
      "where files and batches of clients are kept, or none; makar/files in the user's data without it",
      "FOLDER");
  options.add("--max-file-size", &c.max_file_size, "MB of a file that a client may upload", "MB");
  options.add("--store", &c.store,
              "where the page keeps conversations: a file, none, or auto for one in the user's data folder",
              "FILE");
  options.add("--runs", &c.runs, "the folder of trainings that the page shows", "FOLDER");
  options.add("--log", &c.log, "a JSON line a request on standard error");
  c.models.engine.declare(options);
  add_sampler_options(options, c.sampler);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (const Status status = check_command(c); !status.ok()) return report(status.error()), 2;
  auto keys = KeyRing::read(c.keys, c.key_file);
  if (!keys.ok()) return report(keys.error()), 2;
  auto entries = c.models.entries();
  if (!entries.ok()) return report(entries.error()), 2;
  const auto budget = c.models.engine.budget();
  if (!budget.ok()) return report(budget.error()), 2;
  const std::string name = entries->front().name;
  const bool alone = entries->size() == 1;
  // Destroyed from the last to the first: whoever still waits for an answer is let go while the server is
  // there.
  std::unique_ptr<HttpServer> server;
  ThreadPool pool(static_cast<int>(c.models.model.threads));
  Turns turns;
  ModelShelf shelf(std::move(*entries), c.models.opener(pool, turns, alone), c.models.most);
  if (const Status opened = shelf.open_first(); !opened.ok()) return report(opened.error());
  ServeOptions serve;
  serve.access = {std::move(*keys), c.origins, c.limits};
  serve.parallel = c.models.parallel, serve.queue = c.queue;
  serve.time = std::chrono::seconds(c.timeout);
  serve.defaults.max_new_tokens = c.predict, serve.defaults.sampler = c.sampler;
  serve.seed_given = options.given("--seed");
  serve.page = {c.store == "auto" ? default_store_path() : c.store, c.runs};
  if (c.log) serve.log = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  auto files = open_files(c, serve.no_files);
  if (!files.ok()) return report(files.error());
  serve.files = files->get();
  c.http.port = static_cast<uint16_t>(c.port), c.http.drain_time = std::chrono::seconds(c.drain);
  c.http.header_time = c.http.write_time = std::chrono::seconds(c.client);
  c.http.body_time = 2 * c.http.header_time;
  Service service(shelf, std::move(serve));
  if (c.store != "auto")
    if (const Status opened = service.open_store(); !opened.ok()) return report(opened.error());
  auto listening = HttpServer::listen(service, c.http);
  if (!listening.ok()) return report(listening.error());
  server = std::move(*listening);
  print_welcome(c, name, server->port(), shelf.list().front().active->served.language);
  server->run([&] {
    service.drain();
    fmt::print(stderr, "makar: stopping when what is under way is answered\n");
  });
  return 0;
}

}  // namespace makar

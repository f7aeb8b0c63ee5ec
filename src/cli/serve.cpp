// makar serve: serves models over HTTP.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "base/lost_pages.h"
#include "cli/run.h"
#include "cli/serve_models.h"
#include "cli/serve_tuning.h"
#include "lexical/toxicity.h"
#include "serve/log_writer.h"
#include "serve/service.h"

namespace makar {
namespace {

struct ServeCommand {
  ServedModelOptions models;
  HttpOptions http;
  std::vector<std::string> keys, origins;
  std::string key_file, store = "auto", runs = "runs", ratings = "ratings", results = "results",
                        agents = "agents", prices;
  std::string filter;  // classifier of toxicity
  std::vector<std::string> benign;
  double threshold = 0.5;
  int64_t port = 8080, queue = 128, max_tokens = 4096;
  int64_t timeout_seconds = 600, drain_seconds = 30, client_seconds = 30;
  RateLimit::Limits limits;
  SamplerOptions sampler;
  bool log = false;
  std::string files;
  double max_file_size = 100;  // MB
  ServeTuningOptions tuning;
};

void declare_serve(Options& options, ServeCommand& c) {
  c.models.declare(options);
  options.group("Server");
  options.add("--host", &c.http.host, "address to listen on", "ADDRESS");
  options.add("--port", &c.port, "port to listen on; 0 picks a free one", "N");
  options.add("--tls-cert --ssl-cert-file", &c.http.tls_certificate, "TLS certificate (PEM)", "FILE");
  options.add("--tls-key --ssl-key-file", &c.http.tls_key, "private key of the certificate (PEM)", "FILE");
  options.add("--log", &c.log, "write one JSON line per request to standard error");
  options.add(
      "--prices", &c.prices,
      "price table (JSON: currency, input, output, hour, watts, kwh): cost of requests in answers, log, "
      "/metrics and on the page",
      "FILE");
  options.add("--files", &c.files,
              "folder for clients' files and batches, or none; makar/files in the user's data folder if not "
              "set",
              "FOLDER");
  options.add("--store", &c.store,
              "database for the conversations of the page: a file, none, or auto for one in the user's data "
              "folder",
              "FILE");
  options.add("--runs", &c.runs, "folder of training runs that the page shows", "FOLDER");
  options.add("--results", &c.results, "folder of evaluation results that the page shows", "FOLDER");
  options.add("--agents", &c.agents, "folder of agent traces (makar agent --trace) that the page shows",
              "FOLDER");
  options.add("--ratings", &c.ratings,
              "folder of studies (NAME.jsonl) in which people rate answers on the page", "FOLDER");
  c.tuning.declare(options);
  options.group("Output filter");
  options.add(
      "--output-filter", &c.filter,
      "end an answer before a sentence that this classifier of `makar classify train --method logistic` "
      "finds toxic",
      "FILE");
  options.add("--filter-threshold", &c.threshold, "probability from which a sentence counts as toxic", "P");
  options.add("--benign", &c.benign,
              "the classifier's label for harmless texts, if it is not a common name such as `safe`",
              "LABEL");
  options.group("Access");
  options.add("--api-key", &c.keys, "API key that clients must send; separate several with commas, or repeat",
              "KEY");
  options.add("--api-key-file", &c.key_file,
              "file with one key per line, each with an optional name for the log", "FILE");
  options.add("--cors", &c.origins,
              "allow web pages of this origin to call the API; * for any; may be repeated", "ORIGIN");
  options.add("--rate-limit", &c.limits.requests, "requests per minute per key (or address); 0 for no limit",
              "N");
  options.add("--token-rate-limit", &c.limits.tokens,
              "prompt and generated tokens per minute per key (or address); 0 for no limit", "N");
  options.group("Limits");
  options.add("-n --max-tokens --n-predict", &c.max_tokens,
              "maximum tokens per answer if a chat request sets no limit", "N");
  options.add("--parallel --max-num-seqs -np", &c.models.parallel, "maximum number of sequences per step",
              "N");
  options.add("--queue", &c.queue, "maximum number of waiting requests per key; more get status 429", "N");
  options.add("--timeout", &c.timeout_seconds, "seconds that a request may take", "N");
  options.add("--client-time", &c.client_seconds,
              "seconds that a client may take to send headers (twice that for a body) or to read a response",
              "N");
  options.add("--drain-time", &c.drain_seconds, "seconds that requests in flight may take after SIGTERM",
              "N");
  options.add("--max-file-size", &c.max_file_size, "maximum size of an uploaded file in megabytes", "MB");
  c.models.model.declare_device(options);
  c.models.engine.declare(options);
  c.models.speculation.declare(options);
  add_sampler_options(options, c.sampler);
}

Status check_command(const ServeCommand& c) {
  const auto within = [](const char* flag, int64_t value, int64_t low, int64_t high) -> Status {
    if (value >= low && value <= high) return Done{};
    return error_at(flag, "must be {} to {}, got {}", low, high, value);
  };
  MAKAR_RETURN_IF_ERROR(within("--draft-max", c.models.speculation.speculation.draft_tokens, 1, 64));
  MAKAR_RETURN_IF_ERROR(within("--port", c.port, 0, 65535));
  MAKAR_RETURN_IF_ERROR(within("--parallel", c.models.parallel, 1, 4096));
  MAKAR_RETURN_IF_ERROR(within("--queue", c.queue, 0, 1 << 20));
  MAKAR_RETURN_IF_ERROR(within("--timeout", c.timeout_seconds, 1, 86400));
  MAKAR_RETURN_IF_ERROR(within("--drain-time", c.drain_seconds, 0, 86400));
  MAKAR_RETURN_IF_ERROR(within("--client-time", c.client_seconds, 1, 3600));
  MAKAR_RETURN_IF_ERROR(within("--rate-limit", c.limits.requests, 0, int64_t{1} << 40));
  MAKAR_RETURN_IF_ERROR(within("--token-rate-limit", c.limits.tokens, 0, int64_t{1} << 40));
  MAKAR_RETURN_IF_ERROR(within("--max-tokens", c.max_tokens, 1, 1 << 20));
  if (c.http.tls_certificate.empty() != c.http.tls_key.empty())
    return error_at(c.http.tls_key.empty() ? "--tls-cert" : "--tls-key",
                    "TLS needs both --tls-cert FILE and --tls-key FILE");
  if (c.keys.empty() && c.key_file.empty() && !is_loopback(c.http.host))
    return error_at("--host", "{} is reachable from other machines; set --api-key, or use 127.0.0.1",
                    c.http.host);
  MAKAR_RETURN_IF_ERROR(c.tuning.check());
  if (!(c.max_file_size > 0 && c.max_file_size <= 200))
    return error_at("--max-file-size", "must be above 0 and at most 200, got {}", c.max_file_size);
  if (!(c.threshold > 0 && c.threshold <= 1))
    return error_at("--filter-threshold", "must be above 0 and at most 1, got {}", c.threshold);
  return check_sampler(c.sampler);
}

// Opens closed standard descriptors on /dev/null: otherwise the next file or client would get descriptor 2
// and receive the log.
void open_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(descriptor, F_GETFD) < 0) (void)!::open("/dev/null", O_RDWR);
}

// makar/files in the user's data folder (XDG); empty if HOME is not set.
std::string default_files() {
  const char* data = std::getenv("XDG_DATA_HOME");
  if (data && data[0] == '/') return std::string(data) + "/makar/files";
  const char* home = std::getenv("HOME");
  return home && home[0] == '/' ? std::string(home) + "/.local/share/makar/files" : "";
}

// Opens the file store, or returns none and sets `reason`. A folder given with --files must be usable;
// failing to open the default folder only disables file storage.
Result<std::unique_ptr<FileStore>> open_files(const ServeCommand& c, std::string& reason) {
  const std::string folder = c.files.empty() ? default_files() : c.files;
  reason = "the server stores no files: it was started with --files none";
  if (folder == "none") return std::unique_ptr<FileStore>();
  FileLimits limits;
  limits.bytes = static_cast<size_t>(c.max_file_size * 1e6);
  auto store = folder.empty() ? Result<std::unique_ptr<FileStore>>(error_at("--files", "HOME is not set"))
                              : FileStore::open(folder, limits);
  if (store.ok() || !c.files.empty()) return store;
  reason = "the server stores no files: " + store.error().message;
  return std::unique_ptr<FileStore>();
}

// Route and body of an example request for this kind of model.
std::pair<std::string, std::string> example_request(const LanguageModel& language) {
  const HeadKind head = language.spec().head.kind;
  if (language.spec().is_encoder_decoder() && language.spec().reads_images())
    return {"/v1/chat/completions",
            R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":)"
            R"({"url":"data:image/png;base64,..."}}]}]})"};
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
  const auto [route, body] = example_request(language);
  fmt::print(
      "{} is served at {}\n\n  curl {}{}{} -d '{}'\n\nCtrl-C ends the server after the requests in "
      "flight, a second one at once.\n",
      name, url, url, route,
      c.keys.empty() && c.key_file.empty() ? "" : " -H \"Authorization: Bearer $MAKAR_API_KEY\"", body);
  std::fflush(stdout);
}

// Opened before the models.
struct ServeInputs {
  KeyRing keys;
  std::vector<ModelEntry> entries;
  std::vector<std::shared_ptr<ServedCollection>> collections;
  std::unique_ptr<Device> device;
};

Result<ServeInputs> open_inputs(const ServeCommand& c) {
  ServeInputs out;
  MAKAR_TRY(out.keys, KeyRing::read(c.keys, c.key_file));
  MAKAR_TRY(out.entries, c.models.entries());
  MAKAR_TRY(out.collections, c.models.collections(out.entries));
  MAKAR_TRY(out.device, c.models.model.open_device());
  MAKAR_TRY([[maybe_unused]] const auto budget, c.models.engine.budget());
  return out;
}

// Null without --output-filter.
Result<std::shared_ptr<const OutputFilter>> open_output_filter(const ServeCommand& c) {
  if (c.filter.empty()) return std::shared_ptr<const OutputFilter>();
  MAKAR_TRY(auto classifier, ToxicityClassifier::open(c.filter, c.benign));
  const auto shared = std::make_shared<const ToxicityClassifier>(std::move(classifier));
  return std::make_shared<const OutputFilter>(
      OutputFilter{[shared](std::string_view text) { return shared->toxicity(text); }, c.threshold});
}

// Opens the file store, if there is one. Fine-tuning needs it.
Status set_files(const ServeCommand& c, std::unique_ptr<FileStore>& files, ServeOptions& serve) {
  MAKAR_TRY(files, open_files(c, serve.files_disabled_reason));
  serve.files = files.get();
  if (!c.tuning.accept) return Done{};
  if (!serve.files) return error_at("--fine-tuning", "{}", serve.files_disabled_reason);
  return serve.files->prepare();
}

// The options that follow from the command line alone.
void set_serve_options(const ServeCommand& c, ServeOptions& serve) {
  serve.parallel = c.models.parallel, serve.queue = c.queue;
  serve.time_limit = std::chrono::seconds(c.timeout_seconds);
  serve.defaults.max_new_tokens = c.max_tokens, serve.defaults.sampler = c.sampler;
  serve.page = {c.store == "auto" ? default_store_path() : c.store, c.runs, c.ratings, c.results, c.agents};
  serve.request_memory = c.models.request_memory();
}

HttpOptions http_options(const ServeCommand& c, int64_t request_memory) {
  HttpOptions out = c.http;
  out.max_bodies = std::min(out.max_bodies, static_cast<size_t>(request_memory / 2));
  out.port = static_cast<uint16_t>(c.port), out.drain_time = std::chrono::seconds(c.drain_seconds);
  out.header_time = out.write_time = std::chrono::seconds(c.client_seconds);
  out.body_time = 2 * out.header_time;
  return out;
}

// Opens the models and serves them until a signal ends the server. Returns the exit code.
int serve_until_stopped(const ServeCommand& c, ServeInputs inputs, bool has_seed) {
  const std::string name = inputs.entries.front().name;
  const bool single_model = inputs.entries.size() == 1 && !c.tuning.accept;
  // Destroyed in reverse order: requests in flight are released before the server.
  LogWriter log(STDERR_FILENO);
  std::unique_ptr<HttpServer> server;
  Turns turns;
  ModelRegistry registry(std::move(inputs.entries), c.models.opener(*inputs.device, turns, single_model),
                         c.models.max_loaded);
  if (const Status opened = registry.open_first(); !opened.ok()) return report(opened.error());
  ServeOptions serve;
  if (!c.prices.empty()) {
    const auto prices = read_price_table(c.prices);
    if (!prices.ok()) return report(prices.error()), 2;
    serve.prices = *prices;
    serve.work_seconds = [&turns] { return turns.work_seconds(); };
  }
  serve.collections = std::move(inputs.collections);
  serve.access = {std::move(inputs.keys), c.origins, c.limits};
  set_serve_options(c, serve);
  serve.has_seed = has_seed;
  auto filter = open_output_filter(c);
  if (!filter.ok()) return report(filter.error());
  serve.filter = std::move(*filter);
  if (c.log) serve.log = [&log](const std::string& line) { log.write(line); };
  std::unique_ptr<FileStore> files;
  if (const Status opened = set_files(c, files, serve); !opened.ok()) return report(opened.error());
  serve.tuning = c.tuning.options(registry, log);
  const HttpOptions http = http_options(c, serve.request_memory);
  Service service(registry, std::move(serve));
  if (c.store != "auto")
    if (const Status opened = service.open_store(); !opened.ok()) return report(opened.error());
  auto listening = HttpServer::listen(service, http);
  if (!listening.ok()) return report(listening.error());
  server = std::move(*listening);
  print_welcome(c, name, server->port(), registry.list().front().active->served.language);
  server->run([&] {
    service.drain();
    log.write("makar: shutting down: finishing requests in flight");
  });
  return 0;
}

}  // namespace

int run_serve(const std::vector<std::string>& arguments) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed client connection makes write() fail instead
  open_standard_descriptors();
  survive_lost_pages();
  ServeCommand c;
  c.sampler.temperature = 1;
  Options options(
      "serve",
      "Serve models over HTTP (OpenAI, Anthropic and Ollama APIs) with a web page. Reachable from "
      "this machine only, unless --host and --api-key are set.",
      "makar serve MODEL");
  declare_serve(options, c);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (const Status status = c.models.model.use_default(); !status.ok()) return report(status.error()), 2;
  if (const Status status = check_command(c); !status.ok()) return report(status.error()), 2;
  auto inputs = open_inputs(c);
  if (!inputs.ok()) return report(inputs.error()), 2;
  return serve_until_stopped(c, std::move(*inputs), options.given("--seed"));
}

}  // namespace makar

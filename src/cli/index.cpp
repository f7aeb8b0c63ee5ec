// makar index: adds documents to an index file, lists, shows, removes and checks them.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/file.h"
#include "base/price_table.h"
#include "base/progress.h"
#include "cli/command.h"
#include "cli/index_options.h"
#include "cli/model_path.h"
#include "cli/run.h"
#include "cli/text_io.h"
#include "retrieval/check_index.h"

namespace makar {
namespace {

struct AddCommand {
  std::string index, collection = kDefaultCollection, device = "cpu";
  std::vector<std::string> paths;
  std::string encoding = "auto", chunk = "sentences", vector = "f32", similarity = "cosine";
  CollectionSettings settings;
  SourceOptions load;
  bool no_header = false, no_stem = false, no_stop_words = false, json = false;
  int64_t threads = 0, commit_documents = 256;
  std::string prices;
};

void declare_add(Options& options, AddCommand& c) {
  declare_index(options, c.index, c.collection);
  options.positional("PATH", &c.paths, "files and folders").required = true;
  options.add("--commit-every", &c.commit_documents, "documents per transaction", "N");
  options.group("Input");
  options.add("--encoding", &c.encoding,
              "character encoding of the files: auto, utf-8, latin-1, windows-1252, utf-16le or utf-16be",
              "NAME");
  options.add("--text-field", &c.load.text_field, "column or field with the text", "NAME");
  options.add("--title-field", &c.load.title_field, "column or field with the title", "NAME");
  options.add("--id-field", &c.load.id_field, "column or field with the name of a document", "NAME");
  options.add("--no-header", &c.no_header, "tables: the first row is data, not names of columns");
  options.group("Chunks (fixed when the collection is created)");
  options.add("--chunk", &c.chunk,
              "how to split a document: whole (not at all), characters, tokens, sentences or headings",
              "KIND");
  options.add("--chunk-size", &c.settings.chunk.size, "maximum characters (or tokens) per chunk", "N");
  options.add("--chunk-overlap", &c.settings.chunk.overlap, "maximum overlap of consecutive chunks", "N");
  options.add("--tokenizer", &c.settings.tokenizer, "tokenizer or model for chunks measured in tokens",
              "PATH");
  options.group("Terms (fixed when the collection is created)");
  options.add("--language", &c.settings.analyzer.language,
              "language of stemmer and stop words, such as english; or none", "NAME");
  options.add("--no-stem", &c.no_stem, "index words without stemming");
  options.add("--no-stop-words", &c.no_stop_words, "index function words too");
  options.group("Vectors (fixed when the collection is created)");
  options.add("-m --model", &c.settings.model, "model that embeds each chunk, for dense search", "PATH");
  options.add("--query-model", &c.settings.query_model, "model that embeds queries; --model if not set",
              "PATH");
  options.add("--query-prefix", &c.settings.query_prefix,
              "text to put before each query, such as \"query: \"", "TEXT");
  options.add("--passage-prefix", &c.settings.passage_prefix, "text to put before each chunk", "TEXT");
  options.add("--vector", &c.vector, "type of the stored vectors: f32 or int8", "TYPE");
  options.add("--hnsw", &c.settings.hnsw, "build a graph for fast approximate search");
  options.add("--similarity", &c.similarity, "similarity of vectors: cosine, dot or l2", "NAME");
  options.group("Output");
  options.add("--json", &c.json, "print one line per transaction with the names of its documents");
  options.add("--prices", &c.prices,
              "price table (JSON: currency, input, hour, watts, kwh): report the tokens and the cost of the "
              "embeddings",
              "FILE");
  declare_threads(options, c.threads);
  declare_device(options, c.device);
}

Status check_add(AddCommand& c) {
  MAKAR_TRY(c.load.encoding, parse_encoding(c.encoding, "--encoding"));
  MAKAR_TRY(c.settings.chunk.kind, parse_chunk_kind(c.chunk, "--chunk"));
  MAKAR_RETURN_IF_ERROR(check_chunk_options(c.settings.chunk));
  MAKAR_TRY(c.settings.vector, parse_vector_type(c.vector, "--vector"));
  MAKAR_TRY(c.settings.similarity, parse_similarity(c.similarity, "--similarity"));
  if (c.settings.chunk.kind == ChunkKind::kTokens && c.settings.tokenizer.empty())
    c.settings.tokenizer = c.settings.model;
  if (c.settings.chunk.kind == ChunkKind::kTokens && c.settings.tokenizer.empty())
    return error_at("--chunk", "chunks of tokens need --tokenizer PATH");
  if (!c.settings.tokenizer.empty()) c.settings.tokenizer = resolve_model(c.settings.tokenizer);
  c.settings.analyzer.stem = !c.no_stem, c.settings.analyzer.stop = !c.no_stop_words;
  c.load.header = !c.no_header;
  if (c.commit_documents < 1 || c.commit_documents > 1000000)
    return error_at("--commit-every", "must be from 1 to 1000000, got {}", c.commit_documents);
  MAKAR_TRY([[maybe_unused]] const Analyzer analyzer, Analyzer::open(c.settings.analyzer));
  return Done{};
}

// The collection, created if absent. Settings on the command line must equal those of an existing one.
Result<CollectionInfo> open_collection(IndexStore& store, const AddCommand& c, const Options& options) {
  MAKAR_TRY(const auto found, store.find_collection(c.collection));
  if (!found) return store.create_collection(c.collection, c.settings);
  static const std::vector<std::pair<std::string, std::string>> kFlags = {
      {"language", "--language"},
      {"stem", "--no-stem"},
      {"stop_words", "--no-stop-words"},
      {"chunk", "--chunk"},
      {"chunk_size", "--chunk-size"},
      {"chunk_overlap", "--chunk-overlap"},
      {"tokenizer", "--tokenizer"},
      {"model", "--model"},
      {"query_model", "--query-model"},
      {"query_prefix", "--query-prefix"},
      {"passage_prefix", "--passage-prefix"},
      {"vector", "--vector"},
      {"similarity", "--similarity"},
      {"hnsw", "--hnsw"}};
  const Json existing = found->settings.to_json(), requested = c.settings.to_json();
  for (const auto& [key, flag] : kFlags)
    if (options.given(flag) && existing[key] != requested[key])
      return error_at(flag, "collection '{}' was created with {} = {}; use that, or another --collection",
                      c.collection, key, dump(existing[key]));
  return *found;
}

// What the embeddings of a run took.
struct EmbeddingUsage {
  int64_t tokens = 0;  // counted only for a price table
  double seconds = 0;
};

// The model's function that embeds texts; it shows its progress and updates `usage`. All arguments must
// outlive it.
EmbedTexts measured_embedding(EmbeddingModel& model, bool count_tokens, Progress& progress,
                              EmbeddingUsage& usage) {
  auto embed_texts = model.function([&progress](size_t done) { progress.show("embedding chunks", done, 0); });
  return [&model, count_tokens, &usage, embed_texts = std::move(embed_texts)](
             const std::vector<std::string>& texts) -> Result<std::vector<std::vector<float>>> {
    if (count_tokens) {
      MAKAR_TRY(const int64_t count, model.embedder().count_tokens(texts));
      usage.tokens += count;
    }
    const auto began = std::chrono::steady_clock::now();
    auto out = embed_texts(texts);
    usage.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    return out;
  };
}

// An unreadable file is skipped if it was found in a folder, and an error if it was named.
Status add_files(const AddCommand& c, const std::vector<std::string>& files, Indexer& indexer,
                 Progress& progress, BadRecords& bad) {
  size_t file_index = 0;
  for (const std::string& file : files) {
    progress.show("adding files", file_index++, files.size());
    bool stored = true;
    const Status loaded = load_file(
        file, c.load,
        [&](SourceDocument document) {
          Status added = indexer.add(std::move(document));
          stored = added.ok();
          return added;
        },
        bad);
    if (loaded.ok()) continue;
    const bool named = std::find(c.paths.begin(), c.paths.end(), file) != c.paths.end();
    if (!stored || named) return loaded.error();
    bad.add(file, loaded.error().message);
  }
  MAKAR_RETURN_IF_ERROR(indexer.commit());
  progress.show("adding files", files.size(), files.size());
  return Done{};
}

std::string add_summary(bool json, const std::string& path, const IndexCounts& counts, uint64_t skipped,
                        const std::optional<PriceTable>& prices, const EmbeddingUsage& usage) {
  Json summary = {{"added", counts.added},
                  {"updated", counts.updated},
                  {"unchanged", counts.unchanged},
                  {"skipped", skipped},
                  {"chunks", counts.chunks}};
  std::string text = fmt::format("{}: {} added, {} updated, {} unchanged, {} skipped; {} new chunks\n", path,
                                 counts.added, counts.updated, counts.unchanged, skipped, counts.chunks);
  if (prices) {
    const Cost cost = cost_of(*prices, usage.tokens, 0, usage.seconds);
    summary["cost"] = {{"tokens", usage.tokens},
                       {"seconds", usage.seconds},
                       {"currency", prices->currency},
                       {"money", cost.money},
                       {"joules", cost.joules}};
    text += fmt::format("{} tokens embedded in {:.2f} s: {}\n", usage.tokens, usage.seconds,
                        cost_text(*prices, cost));
  }
  return json ? summary.dump() + "\n" : text;
}

int add_documents(const std::vector<std::string>& arguments) {
  AddCommand c;
  Options options(
      "index add",
      "Add documents: text, Markdown, HTML, PDF, CSV and TSV rows, JSON lines, folders. A document that is "
      "in the index already is replaced if it changed.",
      "makar index add books.db books/ --chunk headings");
  declare_add(options, c);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (const Status checked = check_add(c); !checked.ok()) return report(checked.error()), 2;
  std::optional<PriceTable> prices;
  if (!c.prices.empty()) {
    const auto table = read_price_table(c.prices);
    if (!table.ok()) return report(table.error()), 2;
    prices = *table;
  }
  const auto files = source_files(c.paths);
  if (!files.ok()) return report(files.error());
  auto store = IndexStore::open(c.index, true);
  if (!store.ok()) return report(store.error());
  const auto collection = open_collection(*store, c, options);
  if (!collection.ok()) return report(collection.error()), 2;

  Progress progress(c.json);
  IndexerOptions indexing;
  indexing.commit_documents = c.commit_documents;
  std::shared_ptr<EmbeddingModel> model;
  EmbeddingUsage usage;
  if (!collection->settings.model.empty()) {
    auto opened = EmbeddingModel::open(collection->settings.model, c.device, c.threads);
    if (!opened.ok()) return report(opened.error());
    model = *opened;
    indexing.embed = measured_embedding(*model, prices.has_value(), progress, usage);
    // Embedding is slow: commit more often.
    if (!options.given("--commit-every")) indexing.commit_bytes = size_t{1} << 20;
  }
  bool printed = true;
  if (c.json)
    indexing.on_commit = [&](const std::vector<std::string>& names) {
      printed = print_out(dump(Json{{"committed", names}}) + "\n") && printed;
    };
  auto indexer = Indexer::open(*store, *collection, std::move(indexing));
  if (!indexer.ok()) return report(indexer.error());
  BadRecords bad;
  if (const Status added = add_files(c, *files, *indexer, progress, bad); !added.ok())
    return report(added.error());
  for (const std::string& line : bad.reported) warn(line);
  if (bad.count > bad.reported.size())
    warn(fmt::format("{} more documents were skipped", bad.count - bad.reported.size()));
  const IndexCounts& counts = indexer->counts();
  if (!print_out(add_summary(c.json, store->path(), counts, bad.count, prices, usage)) || !printed) return 1;
  return bad.count > 0 && counts.added + counts.updated + counts.unchanged == 0 ? 1 : 0;
}

Json document_json(const StoredDocument& d) {
  return {{"document", d.name},
          {"title", d.title},
          {"chunks", d.chunks},
          {"bytes", d.bytes},
          {"metadata", d.metadata}};
}

int list_collections(const std::vector<std::string>& arguments) {
  std::string index, collection;
  bool documents = false, json = false;
  Options options("index ls", "List the collections of an index, or the documents of one.",
                  "makar index ls books.db");
  declare_index(options, index, collection);
  options.add("--documents", &documents, "list the documents of the collection");
  options.add("--json", &json, "print one JSON object per line");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  const auto store = IndexStore::open(index, false);
  if (!store.ok()) return report(store.error());
  if (documents) {
    const auto info = store->collection(collection.empty() ? kDefaultCollection : collection);
    if (!info.ok()) return report(info.error());
    const auto list = store->documents(*info);
    if (!list.ok()) return report(list.error());
    for (const StoredDocument& d : *list)
      if (!print_out(json ? dump(document_json(d)) + "\n"
                          : fmt::format("{}  {} chunks, {} bytes  {}\n", d.name, d.chunks, d.bytes, d.title)))
        return 1;
    return 0;
  }
  const auto list = store->collections();
  if (!list.ok()) return report(list.error());
  for (const CollectionInfo& info : *list) {
    if (!collection.empty() && info.name != collection) continue;
    const Json object = {{"collection", info.name},      {"documents", info.documents},
                         {"chunks", info.chunks},        {"terms", info.terms},
                         {"vector_width", info.vectors}, {"settings", info.settings.to_json()}};
    const CollectionSettings& s = info.settings;
    const std::string line = fmt::format(
        "{}: {} documents, {} chunks ({} of {}), language {}{}\n", info.name, info.documents, info.chunks,
        name(s.chunk.kind), s.chunk.size, s.analyzer.language,
        s.model.empty() ? "" : fmt::format(", {} vectors of {} ({})", name(s.vector), info.vectors, s.model));
    if (!print_out(json ? dump(object) + "\n" : line)) return 1;
  }
  return 0;
}

int show_document(const std::vector<std::string>& arguments) {
  std::string index, collection = kDefaultCollection, id;
  bool json = false;
  Options options("index show", "Print the text of a document or of a chunk.",
                  "makar index show books.db books/emma.md");
  declare_index(options, index, collection);
  options.positional("ID", &id, "the name of a document, or the id of a chunk").required = true;
  options.add("--json", &json, "print a JSON object");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  const auto store = IndexStore::open(index, false);
  if (!store.ok()) return report(store.error());
  const auto info = store->collection(collection);
  if (!info.ok()) return report(info.error());
  const auto chunk = store->chunk_by_key(*info, id);
  if (!chunk.ok()) return report(chunk.error());
  if (*chunk) {
    const StoredChunk& k = **chunk;
    const Json object = {{"id", k.key},      {"document", k.name}, {"title", k.title}, {"heading", k.heading},
                         {"begin", k.begin}, {"end", k.end},       {"text", k.text}};
    return print_out(json ? dump(object) + "\n" : k.text + "\n") ? 0 : 1;
  }
  const auto document = store->document(*info, id);
  if (!document.ok()) return report(document.error());
  if (!*document)
    return report(error_of(Error::Kind::kNotFound, store->path(),
                           "collection '{}' has no document or chunk '{}'", collection, id));
  const auto text = store->document_text((*document)->id);
  if (!text.ok()) return report(text.error());
  Json object = document_json(**document);
  object["text"] = *text;
  return print_out(json ? dump(object) + "\n" : *text + (text->ends_with('\n') ? "" : "\n")) ? 0 : 1;
}

int remove_documents(const std::vector<std::string>& arguments) {
  std::string index, collection = kDefaultCollection;
  std::vector<std::string> names;
  bool all = false;
  Options options("index rm", "Remove documents, or a whole collection.",
                  "makar index rm books.db books/emma.md");
  declare_index(options, index, collection);
  options.positional("NAME", &names, "names of documents").required = false;
  options.add("--all", &all, "remove the collection");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (names.empty() == !all) return report(error_at("index rm", "expected names of documents, or --all")), 2;
  auto store = IndexStore::open(index, false);
  if (!store.ok()) return report(store.error());
  const auto info = store->collection(collection);
  if (!info.ok()) return report(info.error());
  if (all) {
    if (const Status removed = store->remove_collection(*info); !removed.ok()) return report(removed.error());
    return print_out(fmt::format("{}: removed collection '{}' with {} documents\n", store->path(), collection,
                                 info->documents))
               ? 0
               : 1;
  }
  auto indexer = Indexer::open(*store, *info, {});
  if (!indexer.ok()) return report(indexer.error());
  if (const Status removed = indexer->remove(names); !removed.ok()) return report(removed.error());
  return print_out(fmt::format("{}: removed {} documents\n", store->path(), indexer->counts().removed)) ? 0
                                                                                                        : 1;
}

int check_index_file(const std::vector<std::string>& arguments) {
  std::string index;
  Options options("index check",
                  "Compare the posting lists, totals and vectors of every collection with its texts.",
                  "makar index check books.db");
  options.positional("INDEX", &index, "the index file, or a PostgreSQL address (postgresql://...)").required =
      true;
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  const auto store = IndexStore::open(index, false);
  if (!store.ok()) return report(store.error());
  const auto counts = check_index(*store);
  if (!counts.ok()) return report(counts.error());
  return print_out(fmt::format("{}: {} documents and {} chunks in {} collections are complete\n",
                               store->path(), counts->documents, counts->chunks, counts->collections))
             ? 0
             : 1;
}

constexpr Command kIndexCommands[] = {
    {"add", "add or update files and folders", add_documents, "Subcommands"},
    {"ls", "list collections or documents", list_collections, "Subcommands"},
    {"show", "print a document or a chunk", show_document, "Subcommands"},
    {"rm", "remove documents or a collection", remove_documents, "Subcommands"},
    {"check", "check that an index is complete", check_index_file, "Subcommands"},
};

}  // namespace

int run_index(const std::vector<std::string>& arguments) {
  return run_subcommand("index", "Put documents into an index file for makar search and makar ask.",
                        "makar index add books.db books/", kIndexCommands, arguments);
}

}  // namespace makar

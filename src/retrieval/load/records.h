// Documents from records: rows of a table, JSON lines, the Cranfield collection.
#pragma once
#include "retrieval/load/loader.h"

namespace makar {

// Each row is a document. Its text is the column named `text_field` or, without one, a column with a usual
// name (text, content, body, ...), else all columns as "name: value" lines. Other columns are metadata.
Status load_table(std::string bytes, bool tabs, const std::string& place, const SourceOptions& options,
                  const DocumentSink& sink, BadRecords& bad);

// Each line is an object. Fields "_id" or "id", "title", and the text as in a table.
Status load_jsonl(std::string bytes, const std::string& place, const SourceOptions& options,
                  const DocumentSink& sink, BadRecords& bad);

// The SMART format of the Cranfield collection: ".I 7" begins document 7; then .T title, .A author, .B
// source, .W text.
Status load_cranfield(std::string bytes, const std::string& place, const DocumentSink& sink, BadRecords& bad);

}  // namespace makar

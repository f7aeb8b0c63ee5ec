// Statements: {% for %}, {% if %}, {% set %}, {% macro %} and others.
#include <algorithm>

#include "base/nearest.h"
#include "text/template/parser.h"

namespace makar::jinja {

std::unique_ptr<const Program> parse_template(std::string_view source, const Limits& limits) {
  auto program = std::make_unique<Program>();
  Parser(tokenize(source, limits), limits, *program).parse_program();
  return program;
}

Statement* Parser::make(Statement::Type type, const Token& at) {
  if (program_.statements.size() >= static_cast<size_t>(limits_.max_nodes))
    throw Failure(Error::Kind::kLimit,
                  fmt::format("the template has more than {} statements", limits_.max_nodes), at.line,
                  at.column);
  Statement& s = program_.statements.emplace_back();
  s.type = type, s.line = at.line, s.column = at.column;
  return &s;
}

void Parser::parse_program() {
  program_.body = parse_body({});
  if (peek().type != Token::Type::kEnd) fail_at(peek(), fmt::format("unexpected {}", describe(peek())));
}

void Parser::expect_block_end() {
  if (peek().type != Token::Type::kBlockEnd)
    fail_at(peek(), fmt::format("expected '%}}', found {}", describe(peek())));
  next();
}

// Parses statements up to a block whose first word is in `ends`; that word is then the next token.
std::vector<Statement*> Parser::parse_body(std::initializer_list<const char*> ends) {
  const Level level(*this);
  std::vector<Statement*> body;
  while (true) {
    const Token token = peek();
    switch (token.type) {
      case Token::Type::kEnd:
        if (ends.size() == 0) return body;
        fail_at(token, fmt::format("the template ends before '{{% {} %}}'", *(ends.end() - 1)));
      case Token::Type::kData:
        body.push_back(make(Statement::Type::kText, token));
        body.back()->text = next().text;
        break;
      case Token::Type::kPrintBegin:
        next();
        body.push_back(make(Statement::Type::kPrint, token));
        body.back()->expression = parse_tuple(true, false);
        if (peek().type != Token::Type::kPrintEnd)
          fail_at(peek(), fmt::format("expected '}}}}', found {}", describe(peek())));
        next();
        break;
      case Token::Type::kBlockBegin:
        next();
        if (std::any_of(ends.begin(), ends.end(), [&](const char* end) { return peek().is_name(end); }))
          return body;
        body.push_back(parse_statement());
        break;
      default:
        fail_at(token, fmt::format("unexpected {}", describe(token)));
    }
  }
}

void Parser::end_block() {
  next();
  expect_block_end();
}

Statement* Parser::parse_statement() {
  const Token at = peek();
  const std::string name = expect_name("the name of a block");
  if (name == "for") return parse_for();
  if (name == "if") return parse_if();
  if (name == "set") return parse_set();
  if (name == "macro") return parse_macro();
  if (name == "call") return parse_call_block();
  if (name == "with") return parse_with();
  if (name == "filter") return parse_filter_block();
  if (name == "generation") {
    Statement* s = make(Statement::Type::kGeneration, at);
    program_.has_generation = true;
    expect_block_end();
    s->body = parse_body({"endgeneration"});
    end_block();
    return s;
  }
  if (name == "break" || name == "continue") {
    if (loops_ == 0) fail_at(at, "'" + name + "' is outside a loop");
    expect_block_end();
    return make(name == "break" ? Statement::Type::kBreak : Statement::Type::kContinue, at);
  }
  for (const char* other : {"include", "import", "from", "extends", "block", "autoescape", "trans", "do"})
    if (name == other)
      throw Failure(Error::Kind::kUnsupported, "the block '" + name + "' is not part of chat templates",
                    at.line, at.column);
  fail_at(at,
          fmt::format(
              "unknown block '{}'{}", name,
              did_you_mean(name, {"for",   "endfor",   "if",     "elif",      "else",       "endif",
                                  "set",   "endset",   "macro",  "endmacro",  "call",       "endcall",
                                  "with",  "endwith",  "filter", "endfilter", "generation", "endgeneration",
                                  "break", "continue", "raw"})));
}

// Parses names to bind, with or without parentheses: "a, b", or "ns.x" if attributes are allowed.
std::vector<std::string> Parser::parse_targets(bool attributes) {
  std::vector<std::string> names;
  const bool parentheses = skip_operator("(");
  do {
    if (!names.empty() && (peek().is_name("in") || peek().is_operator("=") || peek().is_operator(")"))) break;
    const Token at = peek();
    std::string name = expect_name("a name to assign to");
    for (const char* reserved :
         {"true", "false", "none", "True", "False", "None", "in", "not", "and", "or", "is", "if", "else"})
      if (name == reserved) fail_at(at, fmt::format("'{}' cannot be assigned to", name));
    if (attributes && skip_operator(".")) name += "." + expect_name("the name of an attribute");
    names.push_back(std::move(name));
  } while (skip_operator(","));
  if (parentheses) expect_operator(")");
  return names;
}

Statement* Parser::parse_for() {
  Statement* s = make(Statement::Type::kFor, peek());
  s->targets = parse_targets(false);
  // Unlike in Jinja2, a trailing comma after a single name does not unpack; templates rarely use it.
  if (!skip_name("in")) fail_at(peek(), fmt::format("expected 'in', found {}", describe(peek())));
  s->expression = parse_tuple(false, false);
  if (skip_name("if")) s->condition = parse_expression();
  if (peek().is_name("recursive"))
    throw Failure(Error::Kind::kUnsupported, "recursive loops are not supported", peek().line, peek().column);
  expect_block_end();
  ++loops_;
  s->body = parse_body({"else", "endfor"});
  --loops_;
  if (skip_name("else")) {
    expect_block_end();
    s->otherwise = parse_body({"endfor"});
  }
  end_block();
  return s;
}

Statement* Parser::parse_if() {
  Statement* s = make(Statement::Type::kIf, peek());
  while (true) {
    Expression* condition = parse_tuple(false, false);
    expect_block_end();
    auto body = parse_body({"elif", "else", "endif"});
    s->branches.emplace_back(condition, std::move(body));
    if (skip_name("elif")) continue;
    if (skip_name("else")) {
      expect_block_end();
      s->otherwise = parse_body({"endif"});
    }
    end_block();
    return s;
  }
}

Statement* Parser::parse_set() {
  Statement* s = make(Statement::Type::kSet, peek());
  s->targets = parse_targets(true);
  if (skip_operator("=")) {
    s->expression = parse_tuple(true, false);
    expect_block_end();
    return s;
  }
  s->type = Statement::Type::kSetBlock;
  if (s->targets.size() != 1) fail_at(peek(), "a set block assigns to one name");
  while (skip_operator("|")) s->values.push_back(parse_filter(nullptr));
  expect_block_end();
  s->body = parse_body({"endset"});
  end_block();
  return s;
}

void Parser::parse_parameters(Statement* s) {
  expect_operator("(");
  while (!peek().is_operator(")")) {
    s->targets.push_back(expect_name("the name of a parameter"));
    if (skip_operator("="))
      s->values.push_back(parse_expression());
    else if (!s->values.empty())
      fail_at(peek(), "a parameter without a default follows one with a default");
    if (!skip_operator(",")) break;
  }
  expect_operator(")");
}

Statement* Parser::parse_macro() {
  Statement* s = make(Statement::Type::kMacro, peek());
  s->text = expect_name("the name of the macro");
  parse_parameters(s);
  expect_block_end();
  const int loops = std::exchange(loops_, 0);
  s->body = parse_body({"endmacro"});
  loops_ = loops;
  end_block();
  return s;
}

Statement* Parser::parse_call_block() {
  Statement* s = make(Statement::Type::kCallBlock, peek());
  s->text = "caller";
  if (peek().is_operator("(")) parse_parameters(s);
  const Token at = peek();
  s->expression = parse_expression();
  if (s->expression->type != Type::kCall) fail_at(at, "a call block needs a call of a macro");
  expect_block_end();
  const int loops = std::exchange(loops_, 0);
  s->body = parse_body({"endcall"});
  loops_ = loops;
  end_block();
  return s;
}

Statement* Parser::parse_with() {
  Statement* s = make(Statement::Type::kWith, peek());
  while (peek().type != Token::Type::kBlockEnd) {
    s->targets.push_back(expect_name("a name"));
    expect_operator("=");
    s->values.push_back(parse_expression());
    if (!skip_operator(",")) break;
  }
  expect_block_end();
  s->body = parse_body({"endwith"});
  end_block();
  return s;
}

Statement* Parser::parse_filter_block() {
  Statement* s = make(Statement::Type::kFilterBlock, peek());
  do s->values.push_back(parse_filter(nullptr));
  while (skip_operator("|"));
  expect_block_end();
  s->body = parse_body({"endfilter"});
  end_block();
  return s;
}

}  // namespace makar::jinja

#include "cli/client_config.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "cli/quote.h"

namespace waybill::cli {
namespace {

// The first word of shell text and what follows it; nullopt when it does not end.
struct FirstWord {
  std::string word;
  std::string_view rest;
};

std::optional<FirstWord> first_word(std::string_view text) {
  FirstWord out;
  char quote = '\0';
  std::size_t i = 0;
  for (; i < text.size(); ++i) {
    const char c = text[i];
    if (quote == '\0' && (c == ' ' || c == '\t')) break;
    if (c == quote) {
      quote = '\0';
    } else if (quote == '\0' && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == '\\' && quote != '\'' && i + 1 < text.size()) {
      out.word += text[++i];
    } else {
      out.word += c;
    }
  }
  if (quote != '\0') return std::nullopt;
  out.rest = text.substr(i);
  return out;
}

}  // namespace

std::string_view to_word(ClientId client) {
  return client == ClientId::claude ? "claude" : "codex";
}

std::optional<ClientId> client_from_word(std::string_view word) {
  for (const ClientId client : kClients) {
    if (to_word(client) == word) return client;
  }
  return std::nullopt;
}

bool is_our_program(std::string_view program) {
  return program == "waybill" || program.ends_with("/waybill");
}

std::optional<OurHook> our_hook(std::string_view command, ClientId client) {
  std::optional<FirstWord> first = first_word(command);
  if (!first || !first->word.ends_with("/waybill")) return std::nullopt;
  const std::string start = " hook " + std::string(to_word(client)) + " ";
  if (!first->rest.starts_with(start)) return std::nullopt;
  const std::string_view rest = first->rest.substr(start.size());
  const std::size_t end = std::min(rest.find(' '), rest.size());
  return OurHook{std::move(first->word), std::string(rest.substr(0, end)),
                 std::string(rest.substr(end))};
}

std::string hook_command(const Wiring& wiring, ClientId client, std::string_view event) {
  std::string out = shell_quote(wiring.program) + " hook " + std::string(to_word(client)) + " " +
                    std::string(event);
  if (!wiring.data_dir.empty()) out += " --data " + shell_quote(wiring.data_dir);
  return out;
}

std::vector<std::string> mcp_arguments(const Wiring& wiring) {
  if (wiring.data_dir.empty()) return {"mcp"};
  return {"mcp", "--data", wiring.data_dir};
}

Result<std::string> client_directory(const char* variable, std::string_view below_home) {
  const char* named = std::getenv(variable);
  const char* home = std::getenv("HOME");
  std::string path;
  if (named != nullptr && *named != '\0') {
    path = named;
  } else if (home != nullptr && *home != '\0') {
    path = home;
    if (!below_home.empty()) path += "/" + std::string(below_home);
  } else {
    return fail(ErrorCode::bad_request,
                "HOME is not set, so the client's configuration cannot be "
                "found; set HOME or " +
                    std::string(variable) + ".");
  }
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  if (error) return fail(ErrorCode::bad_request, "The current directory is gone.");
  return absolute.lexically_normal().string();
}

Result<std::vector<FileChange>> plan_setup(ClientId client, const Wiring& wiring) {
  return client == ClientId::claude ? plan_claude(wiring) : plan_codex(wiring);
}

Result<std::vector<FileChange>> plan_undo(ClientId client) {
  return client == ClientId::claude ? undo_claude() : undo_codex();
}

Result<Wired> look_at_client(ClientId client) {
  return client == ClientId::claude ? look_at_claude() : look_at_codex();
}

}  // namespace waybill::cli

// Unsent text and attachments, per conversation (0: the new one). The text survives a reload.
import { saveInTab, loadFromTab } from "../state";
import type { AttachedFile } from "../types";

export interface Draft {
  text: string;
  files: AttachedFile[];
}

const texts = loadFromTab<Record<string, string>>("drafts", {});
const files = new Map<number, AttachedFile[]>();

export function draftOf(conversation: number): Draft {
  return { text: texts[conversation] ?? "", files: files.get(conversation) ?? [] };
}

export function setDraft(conversation: number, draft: Draft): void {
  if (draft.text) texts[conversation] = draft.text;
  else delete texts[conversation];
  saveInTab("drafts", texts);
  files.set(conversation, draft.files);
}

/** HTML that the server made from Markdown, with raw HTML escaped. */
export function Rendered({ html }: { html: string }) {
  return <div class="rendered" dangerouslySetInnerHTML={{ __html: html }} />;
}
